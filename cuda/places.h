/*
 * places.h
 *		Where a partial copy keeps the blocks of its index.
 */
#ifndef HARMONIA_CUDA_PLACES_H
#define HARMONIA_CUDA_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <vector>

namespace harmonia
{

/* The places of a partial copy: where it has which block of the index. */
class Places
{
public:
	/* There are more places.  May throw bad_alloc. */
	void		add(uint32_t first, uint32_t end);

	/* Find a block's place.  Returns false if it has none. */
	bool		find(uint32_t block, uint32_t *place) const
	{
		if (block >= places.size() || places[block] == none)
			return false;
		*place = places[block];
		return true;
	}

	/* The same, but give it one.  Returns false if none is free.  May throw bad_alloc. */
	bool		make(uint32_t block, uint32_t *place);

	/* Free all places but these.  May throw bad_alloc. */
	void		keep(const uint32_t *kept, uint32_t count);

	uint32_t	free_count() const
	{
		return (uint32_t) unused.size();
	}
	bool		empty() const
	{
		return owners.empty();
	}

private:
	static constexpr uint32_t none = UINT32_MAX;
	std::vector<uint32_t> places;	/* of each block, or none */
	std::vector<uint32_t> owners;	/* the block of each place, or none */
	std::vector<uint32_t> unused;	/* places */
};

}								/* namespace harmonia */

#endif							/* HARMONIA_CUDA_PLACES_H */
