/*
 * group.h
 *		Thread groups, and how they search sorted keys.
 *
 * A group is the narrowed thread group of Harmonia, PPoPP 2019, section 4.2: the
 * threads that serve one query.  All of them execute the same step at the same time, and
 * they vote: group.vote(test) returns the set of threads for which test(thread) holds.
 */
#ifndef HARMONIA_CUDA_GROUP_H
#define HARMONIA_CUDA_GROUP_H

#include <type_traits>

#include "harmonia_device.h"
#include "wide.h"

namespace harmonia
{

HD_BOTH int
count_bits(uint32_t set)
{
#ifdef __CUDA_ARCH__
	return __popc(set);
#else
	return __builtin_popcount(set);
#endif
}

HD_BOTH int
lowest_bit(uint32_t set)
{
#ifdef __CUDA_ARCH__
	return __ffs((int) set) - 1;
#else
	return __builtin_ctz(set);
#endif
}

/* A group whose threads are all played by one thread. */
template <int Threads> struct HostGroup
{
	static constexpr int threads = Threads;

	template <typename Test> HD_BOTH uint32_t vote(Test test) const
	{
		uint32_t set = 0;

		for (int thread = 0; thread < Threads; thread++)
			set |= (uint32_t) (test(thread) ? 1 : 0) << thread;
		return set;
	}
};

/*
 * Find the child of a node for a key: the number of keys below it among the first
 * children - 1 keys, which do not descend.
 *
 * In each step the group cuts the remaining candidates into threads + 1 parts of equal
 * size and keeps one; a single thread does binary search.  The last part counts as full
 * even if it is not, so that all groups of a warp take the same number of steps.
 * Children is the number of children if it is known at compile time, otherwise 0.
 */
template <int Children, typename Group, typename Key>
HD_BOTH int
find_child(const Group &group, const Key *keys, int children, Key key)
{
	int first = 0;

	if constexpr (Group::threads == 1 && Children > 0)
	{
		static_assert((Children & (Children - 1)) == 0, "halves");

		/* No step reads beyond the keys, and there are no branches. */
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
		for (int step = Children / 2; step > 0; step /= 2)
			first += keys[first + step - 1] < key ? step : 0;
	}
	else
	{
		for (int candidates = children; candidates > 1;)
		{
			int part = (candidates + Group::threads) / (Group::threads + 1);
			uint32_t below = group.vote(
				[&](int thread)
				{
					int i = first + (thread + 1) * part - 1;

					return i < children - 1 && keys[i] < key;
				});

			first += count_bits(below) * part;
			candidates = part;
		}
	}
	return first;
}

/*
 * A narrowed group, which compares the keys of a node front to back: with little work before
 * the key that decides, it is done early.  src/tree/ntg.c chooses its size.
 */
template <typename Group> struct FrontToBack : Group
{
};

/* The same for a narrowed group. */
template <int Children, typename Group, typename Key>
HD_BOTH int
find_child(const FrontToBack<Group> &group, const Key *keys, int children, Key key)
{
	for (int first = 0;; first += Group::threads)
	{
		uint32_t below = group.vote(
			[&](int thread)
			{
				int i = first + thread;

				return i < children - 1 && keys[i] < key;
			});

		if (count_bits(below) < Group::threads)
			return first + count_bits(below);
	}
}

/*
 * Call act() with a constant for the number of threads of a group, which is a power of two up to
 * 32.
 */
template <int Threads = 1, typename Act>
auto
with_threads(int threads, Act act)
{
	if constexpr (Threads < 32)
	{
		if (threads > Threads)
			return with_threads<2 * Threads>(threads, act);
	}
	return act(std::integral_constant<int, Threads>());
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GROUP_H */
