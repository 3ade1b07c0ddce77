/*
 * marks.h
 *		Telling the owner of copies of indexes what changes in them.
 *
 * Writers mark what they change in an index while it is watched.  Who watches, and what becomes of
 * the marks, is not known here: hooks are set when the library is loaded, or none are.  While no
 * index is watched, a mark costs one test.
 *
 * None of these functions allocates memory or fails.  All of them may be called in a critical
 * section.
 */
#ifndef HARMONIA_AM_MARKS_H
#define HARMONIA_AM_MARKS_H

#include "port/atomics.h"
#include "storage/buf.h"
#include "utils/rel.h"

/* Marks name lines of so many bytes. */
#define HM_LINE_SIZE 128

/* What is called while any index is watched. The contracts are those of the functions below. */
typedef struct HmMarkHooks
{
	void (*page)(Relation index, Buffer buffer, uint64 lines);
	void (*blocks)(Relation index, BlockNumber block, uint32 count);
	void (*structure)(Relation index);
	pg_atomic_uint32 *watched; /* number of watched indexes; NULL: there are no hooks */
} HmMarkHooks;

extern HmMarkHooks hm_mark_hooks;

/*
 * Is any index watched?  A caller that is about to change a page must hold its lock
 * already.
 */
static inline bool
hm_marks_wanted(void)
{
	return hm_mark_hooks.watched != NULL && pg_atomic_read_u32(hm_mark_hooks.watched) > 0;
}

/* All lines of a page. */
#define HM_ALL_LINES PG_UINT64_MAX

/*
 * Mark lines of a page that are about to change: bit i stands for the HM_LINE_SIZE
 * bytes from HM_LINE_SIZE * i on.  The caller holds the page locked exclusively.
 */
static inline void
hm_mark_page(Relation index, Buffer buffer, uint64 lines)
{
	if (unlikely(hm_marks_wanted()))
		hm_mark_hooks.page(index, buffer, lines);
}

/*
 * Mark all lines of these blocks.  They change now, or changed without marks before the
 * blocks became part of the index.  The caller holds the pages locked exclusively, or
 * the pages through which alone they can be reached.
 */
static inline void
hm_mark_blocks(Relation index, BlockNumber block, uint32 count)
{
	if (unlikely(hm_marks_wanted()))
		hm_mark_hooks.blocks(index, block, count);
}

/*
 * Mark a change of structure: leaves appear, disappear or pass entries on to each other.  The
 * caller holds all pages of the change locked exclusively, and has marked new leaves.
 */
static inline void
hm_mark_structure(Relation index)
{
	if (unlikely(hm_marks_wanted()))
		hm_mark_hooks.structure(index);
}

#endif /* HARMONIA_AM_MARKS_H */
