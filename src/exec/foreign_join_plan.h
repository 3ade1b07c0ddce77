/*
 * foreign_join_plan.h
 *		What foreign_join_paths.c and foreign_join_plan.c offer to one another.
 */
#ifndef HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H
#define HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H

#include "exec/foreign_join.h"
#include "exec/lookup_join_plan.h"

/* The number of elements that an array of unknown length is taken to have, here and remotely. */
#define HM_NOMINAL_KEYS	10

/* The foreign tables of an inner side. */
typedef struct ForeignTables
{
	int			count;
	Cost		startup;		/* until all have returned a row, at least */
	Cost		single_key;		/* of a query for one key, without its start; 0: there may be no
								 * path for one */
} ForeignTables;

/* A foreign or local table, as it is read with one condition more: key = ANY (array). */
typedef struct ForeignTarget
{
	RelOptInfo *rel;
	RestrictInfo *condition;	/* NULL: a local table */
	Path	   *path;			/* for as many keys as an array is taken to have; its parent is
								 * a copy of the relation */
	bool		linear;			/* the costs of other numbers follow from the rows; otherwise,
								 * they are proportional to the number */
	Cost		per_row;		/* 0 if not linear */
	List	   *share;			/* conditions on a key, which is a CaseTestExpr: other keys have
								 * no rows here.  NIL: any may have */
	double		fraction;		/* of the keys, in the share */
} ForeignTarget;

/*
 * A foreign table, or a table with foreign partitions or children, as the inner side of
 * foreign joins by one key.
 */
typedef struct ForeignInner
{
	RelOptInfo *inner;
	Node	   *key;
	Oid			operator;		/* with the key on its left side */
	Oid			collation;
	Oid			type;			/* of the array's elements */
	Index		security_level;
	Param	   *param;			/* the array */
	List	   *targets;		/* ForeignTargets; NIL: no join is possible */
	bool		sends_known;	/* see hm_foreign_sends_arrays() */
} ForeignInner;

/* The order of a path's custom_private. */
enum ForeignPathPrivate
{
	FOREIGN_PATH_INNER,			/* ForeignInner */
	FOREIGN_PATH_KEY,			/* the key clause: a RestrictInfo */
	FOREIGN_PATH_RESTRICTIONS,	/* all join clauses */
	FOREIGN_PATH_FLAGS			/* JoinType, inner side on the left of the key clause? */
};

extern const CustomPathMethods hm_foreign_join_path_methods;

extern void hm_count_foreign(PlannerInfo *root, RelOptInfo *rel, ForeignTables *tables);
extern ForeignInner *hm_foreign_inner(PlannerInfo *root, RelOptInfo *inner, RestrictInfo *info,
									  bool inner_left);
extern bool hm_foreign_sends_arrays(PlannerInfo *root, ForeignInner *side);

#endif							/* HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H */
