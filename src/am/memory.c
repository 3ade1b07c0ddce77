/*
 * memory.c
 *		Memory for large arrays.
 */
#include "postgres.h"

#ifndef WIN32
#include <sys/mman.h>
#endif

#include "utils/memutils.h"

#include "am/am.h"

#define HUGE_PAGE	(2 * 1024 * 1024)

void *
hm_alloc_large(Size size)
{
	char	   *memory = MemoryContextAllocHuge(CurrentMemoryContext, size);

#ifdef MADV_HUGEPAGE
	char	   *begin = (char *) TYPEALIGN(HUGE_PAGE, memory);
	char	   *end = (char *) TYPEALIGN_DOWN(HUGE_PAGE, memory + size);

	/* This is only advice, so errors are ignored. */
	if (begin < end)
		(void) madvise(begin, (size_t) (end - begin), MADV_HUGEPAGE);
#endif
	return memory;
}
