/*
 * foreign_join_plan.h
 *		What foreign_join_paths.c and foreign_join_plan.c offer to one another.
 */
#ifndef HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H
#define HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H

#include "exec/foreign_join.h"
#include "exec/lookup_join_plan.h"

/* A foreign table, as it is read with one condition more: key = ANY (array). */
typedef struct ForeignTarget
{
	RelOptInfo *rel;
	Path	   *path;			/* for as many keys as an array is taken to have; its parent is
								 * a copy of the relation */
	bool		linear;			/* the costs of other numbers follow from the rows; otherwise,
								 * they are proportional to the number */
	Cost		per_row;
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
	List	   *targets;		/* ForeignTargets; NIL: no join is
								 * possible */
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

#endif							/* HARMONIA_EXEC_FOREIGN_JOIN_PLAN_H */
