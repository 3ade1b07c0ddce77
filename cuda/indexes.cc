/*
 * indexes.cc
 *		Keeps account of which devices have copies of which indexes.
 */
#include "indexes.h"

#include <algorithm>

namespace harmonia
{

static_assert(sizeof(HpIndexName) == 24, "names are compared byte by byte");

uint32_t
CopiedIndex::blocks() const
{
	uint32_t least = UINT32_MAX;

	for (int device = 0; device < HD_MAX_DEVICES; device++)
	{
		if ((holders & set_of(device)) != 0)
			least = std::min(least, held[device].blocks);
	}
	return least;
}

IndexPointer
Indexes::find(const HpIndexName &name) const
{
	auto found = all.find(name);

	return found == all.end() ? nullptr : found->second;
}

IndexPointer
Indexes::use(const HpIndexName &name)
{
	IndexPointer found = find(name);

	if (found != nullptr)
		found->used = ++clock;
	return found;
}

IndexPointer
Indexes::create(const HpIndexName &name, HtWidth width, int fanout, DeviceSet holders)
{
	IndexPointer made = std::make_shared<CopiedIndex>();

	made->name = name;
	made->width = width;
	made->fanout = fanout;
	made->holders = holders;
	made->used = ++clock;
	all.emplace(name, made);
	return made;
}

void
Indexes::drop(const IndexPointer &index)
{
	auto found = all.find(index->name);

	index->holders = 0;
	if (found != all.end() && found->second == index)
		all.erase(found);
}

void
Indexes::drop_all()
{
	for (auto &one : all)
		one.second->holders = 0;
	all.clear();
}

void
Indexes::leave(const IndexPointer &index, int device, bool evicted)
{
	if ((index->holders & set_of(device)) == 0)
		return;
	index->holders &= ~set_of(device);
	if (index->holders != 0)
		return;
	drop(index);
	evicted_count += evicted;
}

} /* namespace harmonia */
