/*
 * subselect_joins.h
 *		Left joins that stand for sub-selects by a unique key.
 */
#ifndef HARMONIA_EXEC_SUBSELECT_JOINS_H
#define HARMONIA_EXEC_SUBSELECT_JOINS_H

#include "nodes/primnodes.h"

/* The joins that have been added to a query. */
typedef struct SubselectJoins
{
	Query *query;
	List *joins;
} SubselectJoins;

/*
 * What stands for a sub-select in an expression of a query, if it can be a left join with a table,
 * which is added on top of the query's FROM list unless it is there; otherwise NULL.  The
 * sub-select is evaluated only for rows for which all guards are true: conditions that cannot fail,
 * or NULL for one that is not known to be such.  Its result may be false in place of NULL, or not.
 */
extern Node *hm_join_sublink(SubselectJoins *joins, const SubLink *link, List *guards,
							 bool null_is_false);

/*
 * If EXISTS, of which a query's WHERE clause makes a semijoin, is over a join, and each row of the
 * query has one row of one of its tables at most: join that table to the query, and leave the
 * others to EXISTS.
 */
extern void hm_join_exists(SubselectJoins *joins, SubLink *link);

#endif /* HARMONIA_EXEC_SUBSELECT_JOINS_H */
