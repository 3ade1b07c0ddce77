/*
 * places.cc
 *		Where a partial copy keeps the blocks of its index.
 */
#include "places.h"

namespace harmonia
{

void
Places::add(uint32_t first, uint32_t end)
{
	owners.resize(end, none);
	unused.reserve(end);
	while (end > first)
		unused.push_back(--end);
}

bool
Places::make(uint32_t block, uint32_t *place)
{
	if (find(block, place))
		return true;
	if (unused.empty())
		return false;
	if (block >= places.size())
		places.resize((size_t) block + block / 8 + 1, none);
	*place = unused.back();
	unused.pop_back();
	places[block] = *place;
	owners[*place] = block;
	return true;
}

void
Places::keep(const uint32_t *kept, uint32_t count)
{
	std::vector<bool> needed(owners.size());

	for (uint32_t i = 0; i < count; i++)
		needed[kept[i]] = true;
	for (uint32_t place = 0; place < owners.size(); place++)
	{
		if (needed[place] || owners[place] == none)
			continue;
		places[owners[place]] = none;
		owners[place] = none;
		unused.push_back(place);
	}
}

}								/* namespace harmonia */
