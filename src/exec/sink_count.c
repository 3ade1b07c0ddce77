/*
 * sink_count.c
 *		What is done with hits: results are counted.
 */
#include "postgres.h"

#include "exec/sink.h"

uint64
hm_lookup_count_rows(CustomScanState *node)
{
	LookupNode *lookup = (LookupNode *) node;
	uint64 count = 0;
	uint32 row;
	bool with_inner;

	lookup->counting = true;
	lookup->counted = 0;
	for (hm_lookup_go_on(lookup); lookup->phase != PHASE_DONE; hm_lookup_go_on(lookup))
	{
		while (next_result(lookup, &row, &with_inner))
		{
			count++;
			ResetExprContext(node->ss.ps.ps_ExprContext);
		}
	}
	lookup->counting = false;
	return count + lookup->counted;
}
