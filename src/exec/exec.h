/*
 * exec.h
 *		Custom scan nodes that look many keys up in one call.
 *
 * Three nodes: the lookup scan reads one table, `k = ANY (array)` and several
 * ranges; the lookup count counts what such a scan finds; the lookup join looks the
 * rows of any plan up in one table.  Each has a planner half (*_plan.c) and an
 * executor half.  src/exec/README tells how they work.
 */
#ifndef HARMONIA_EXEC_H
#define HARMONIA_EXEC_H

/* Install the planner hooks, define the GUCs; call once, from _PG_init. */
extern void hm_exec_init(void);

#endif							/* HARMONIA_EXEC_H */
