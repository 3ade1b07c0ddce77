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

#define HUGE_PAGE (2 * 1024 * 1024)

/* Ask for huge pages.  This is only advice, so errors are ignored. */
static void
advise(char *memory, Size size)
{
#ifdef MADV_HUGEPAGE
	char *begin = (char *) TYPEALIGN(HUGE_PAGE, memory);
	char *end = (char *) TYPEALIGN_DOWN(HUGE_PAGE, memory + size);

	if (begin < end)
		(void) madvise(begin, (size_t) (end - begin), MADV_HUGEPAGE);
#endif
}

void *
hm_alloc_large(Size size)
{
	void *memory = MemoryContextAllocHuge(CurrentMemoryContext, size);

	advise(memory, size);
	return memory;
}

void *
hm_resize_large(MemoryContext context, void *memory, Size size)
{
	memory = memory == NULL ? MemoryContextAllocHuge(context, size) : repalloc_huge(memory, size);
	advise(memory, size);
	return memory;
}
