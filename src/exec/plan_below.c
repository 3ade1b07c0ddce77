/*
 * plan_below.c
 *		The plan below a node that has one.
 */
#include "postgres.h"

#include "executor/instrument.h"

#include "exec/nodes.h"

void
hm_child_begin(CustomScanState *node, EState *estate, int eflags)
{
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	ListCell *cell;

	foreach (cell, plan->custom_plans)
	{
		if (foreach_current_index(cell) == 0 || estate->es_epq_active != NULL)
			node->custom_ps = lappend(node->custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	}
}

void
hm_child_rescan(CustomScanState *node)
{
	ListCell *cell;

	foreach (cell, node->custom_ps)
	{
		PlanState *child = lfirst(cell);

		if (node->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(child, node->ss.ps.chgParam);

		/* Otherwise it is rescanned when its next row is read. */
		if (child->chgParam == NULL)
			ExecReScan(child);
	}
}

void
hm_child_end(CustomScanState *node)
{
	ListCell *cell;

	foreach (cell, node->custom_ps)
		ExecEndNode(lfirst(cell));
}

void
hm_child_enter(PlanState *child)
{
	if (child->chgParam != NULL)
		ExecReScan(child);
	if (child->instrument)
		InstrStartNode(child->instrument);
}

void
hm_child_leave(PlanState *child, uint64 rows)
{
	if (child->instrument)
		InstrStopNode(child->instrument, (double) rows);
}
