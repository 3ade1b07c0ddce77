/*
 * exec.h
 *		Custom scan nodes that look up many keys in one call.
 *
 * The lookup scan reads one table by `k = ANY (array)` or several ranges, or all partitions of one
 * by an array.  The lookup join looks up the rows of any plan in one table or in all partitions of
 * one.  The lookup aggregate counts what these two find, and computes other aggregates of it.  The
 * foreign join looks keys up in foreign tables.  Each node has a planner half (*_plan.c, *_paths.c,
 * *_cost.c) and an executor half.  src/exec/README describes how they work.
 */
#ifndef HARMONIA_EXEC_H
#define HARMONIA_EXEC_H

/*
 * Define the GUCs, register the nodes, and install the planner hooks.  Call it once, from
 * _PG_init().  Hooks that are installed already are called first.
 */
extern void hm_exec_init(void);

#endif /* HARMONIA_EXEC_H */
