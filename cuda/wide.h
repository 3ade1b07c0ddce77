/*
 * wide.h
 *		Keys of more than 64 bits, with the operators that the traversal uses.
 *
 * The bytes are those of HtKey128 (src/tree/key.h): the lowest word comes first.
 */
#ifndef HARMONIA_CUDA_WIDE_H
#define HARMONIA_CUDA_WIDE_H

#include <stdint.h>

#ifdef __CUDACC__
#define HD_BOTH __host__ __device__ __forceinline__
#else
#define HD_BOTH inline
#endif

namespace harmonia
{

/* An unsigned number of 128 bits; arithmetic is modulo its range. */
struct Wide
{
	uint64_t words[2];

	Wide() = default;
	HD_BOTH Wide(uint64_t low)
	{
		words[0] = low;
		words[1] = 0;
	}

	HD_BOTH explicit operator uint64_t() const
	{
		return words[0];
	}
	HD_BOTH explicit operator uint32_t() const
	{
		return (uint32_t) words[0];
	}
	HD_BOTH explicit operator uint16_t() const
	{
		return (uint16_t) words[0];
	}
};

HD_BOTH bool
operator==(const Wide &a, const Wide &b)
{
	uint64_t different = 0;

	for (int i = 0; i < 2; i++)
		different |= a.words[i] ^ b.words[i];
	return different == 0;
}

HD_BOTH bool
operator<(const Wide &a, const Wide &b)
{
	bool less = false;

	for (int i = 0; i < 2; i++)
		less = a.words[i] < b.words[i] || (a.words[i] == b.words[i] && less);
	return less;
}

HD_BOTH bool
operator>(const Wide &a, const Wide &b)
{
	return b < a;
}

HD_BOTH bool
operator<=(const Wide &a, const Wide &b)
{
	return !(b < a);
}

HD_BOTH bool
operator>=(const Wide &a, const Wide &b)
{
	return !(a < b);
}

HD_BOTH Wide
operator+(const Wide &a, const Wide &b)
{
	Wide sum;
	uint64_t carry = 0;

	for (int i = 0; i < 2; i++)
	{
		uint64_t word = a.words[i] + carry;

		carry = word < carry;
		sum.words[i] = word + b.words[i];
		carry += sum.words[i] < word;
	}
	return sum;
}

HD_BOTH Wide
operator-(const Wide &a, const Wide &b)
{
	Wide difference;
	uint64_t borrow = 0;

	for (int i = 0; i < 2; i++)
	{
		uint64_t word = a.words[i] - b.words[i];

		difference.words[i] = word - borrow;
		borrow = (a.words[i] < b.words[i]) + (word < borrow);
	}
	return difference;
}

HD_BOTH Wide
operator^(const Wide &a, const Wide &b)
{
	Wide result;

	for (int i = 0; i < 2; i++)
		result.words[i] = a.words[i] ^ b.words[i];
	return result;
}

HD_BOTH Wide
operator&(const Wide &a, const Wide &b)
{
	Wide result;

	for (int i = 0; i < 2; i++)
		result.words[i] = a.words[i] & b.words[i];
	return result;
}

HD_BOTH Wide
operator|(const Wide &a, const Wide &b)
{
	Wide result;

	for (int i = 0; i < 2; i++)
		result.words[i] = a.words[i] | b.words[i];
	return result;
}

HD_BOTH Wide
operator~(const Wide &a)
{
	Wide result;

	for (int i = 0; i < 2; i++)
		result.words[i] = ~a.words[i];
	return result;
}

/* By 0 to 127 bits, as below. */
HD_BOTH Wide
operator<<(const Wide &a, int shift)
{
	Wide result;

	for (int i = 0; i < 2; i++)
	{
		uint64_t high = 0;
		uint64_t low = 0;

		for (int j = 0; j < 2; j++)
		{
			high = j == i - shift / 64 ? a.words[j] : high;
			low = j == i - shift / 64 - 1 ? a.words[j] : low;
		}
		result.words[i] = shift % 64 == 0 ? high : high << shift % 64 | low >> (64 - shift % 64);
	}
	return result;
}

/* By 0 to 127 bits. */
HD_BOTH Wide
operator>>(const Wide &a, int shift)
{
	Wide result;

	for (int i = 0; i < 2; i++)
	{
		uint64_t low = 0;
		uint64_t high = 0;

		/* No index depends on the shift, so that words stay in registers. */
		for (int j = 0; j < 2; j++)
		{
			low = j == i + shift / 64 ? a.words[j] : low;
			high = j == i + shift / 64 + 1 ? a.words[j] : high;
		}
		result.words[i] = shift % 64 == 0 ? low : low >> shift % 64 | high << (64 - shift % 64);
	}
	return result;
}

/* The greatest key of a type. */
template <typename Key> struct KeyLimits
{
	static HD_BOTH Key max()
	{
		return (Key) -1;
	}
};

template <> struct KeyLimits<Wide>
{
	static HD_BOTH Wide max()
	{
		Wide key;

		for (int i = 0; i < 2; i++)
			key.words[i] = UINT64_MAX;
		return key;
	}
};

/* The number of bits from the highest one that is set. */
HD_BOTH int
bit_length(uint64_t key)
{
#ifdef __CUDA_ARCH__
	return 64 - __clzll((long long) key);
#else
	return key == 0 ? 0 : 64 - __builtin_clzll(key);
#endif
}

HD_BOTH int
bit_length(const Wide &key)
{
	int length = 0;

	for (int i = 0; i < 2; i++)
		length = key.words[i] != 0 ? 64 * i + bit_length(key.words[i]) : length;
	return length;
}

/* Keys of any width are planned with as this. */
using AnyKey = Wide;

/* A planned key as an index's; the low bits of it. */
template <typename Key>
inline Key
key_of(const AnyKey &key)
{
	return (Key) key;
}

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_WIDE_H */
