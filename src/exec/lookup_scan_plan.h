/*
 * lookup_scan_plan.h
 *		What lookup_scan_plan.c and lookup_scan_cost.c offer to one another.
 */
#ifndef HARMONIA_EXEC_LOOKUP_SCAN_PLAN_H
#define HARMONIA_EXEC_LOOKUP_SCAN_PLAN_H

#include "exec/lookup_join_plan.h"

/* An arm: conditions on the key that are combined by AND. */
typedef struct Arm
{
	List *clauses;   /* RestrictInfos, if they hold for all arms */
	List *keys;      /* a LookupKey for each */
	List *arguments; /* the value that each condition compares with */
	double probes;   /* the expected number of ranges */
	bool guessed;    /* "probes" comes from an array whose length the planner does not know */
} Arm;

typedef struct Conditions
{
	List *infos;   /* the restrictions that the conditions come from */
	List *exact;   /* those of them that say no more than the conditions */
	List *clauses; /* the conditions as clauses */
	List *arms;    /* list of Arm; a row must satisfy one of them */
} Conditions;

/* Whether `= ANY (array)`, on the only column of an index, is the only condition. */
extern bool hm_scan_is_single_array(const IndexOptInfo *index, const Conditions *conditions);

/* ----------------------------------------------------------------
 *		Costs (lookup_scan_cost.c)
 * ----------------------------------------------------------------
 */

/*
 * The share of a table's rows that an index finds, and *looked_at: that of the rows that are looked
 * at.  An OR can have conditions that are not on the key.
 */
extern Selectivity hm_scan_selectivity(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
									   const Conditions *conditions, bool index_only,
									   Selectivity *looked_at);

/*
 * Set the costs of a path.  "work" says how many probes, hits and rows each process has; the rest
 * of it is filled in.  "guessed" says that the number of probes is a guess of the planner's.
 */
extern void hm_scan_cost_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							  const Conditions *conditions, bool guessed, HmLookupWork *work,
							  Path *path);

#endif /* HARMONIA_EXEC_LOOKUP_SCAN_PLAN_H */
