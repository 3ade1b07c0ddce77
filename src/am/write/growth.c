/*
 * growth.c
 *		When a segment has grown so far that it is to be moved.
 */
#include "postgres.h"

#include "am/write/insert.h"

/* The background worker has that much growth, in percent, to move it before an insert does. */
#define HM_URGENT_PERCENT 25

/*
 * An auxiliary node with so many children, and a segment with so many extents, will soon be full.
 */
#define HM_AUXILIARY_NEARLY (HM_AUXILIARY_MAX * 4 / 5)
#define HM_EXTENTS_NEARLY (HM_SEGMENT_MAX_EXTENTS - 1)

bool
hm_segment_wants_movement(Relation index, Buffer header)
{
	HmSegment *segment = hm_page_segment(BufferGetPage(header));
	uint32 bottom_nodes = segment->nodes - segment->bottom_start;
	bool result = segment->leaves >= hm_outgrown_leaves(segment) ||
				  segment->extent_count >= HM_EXTENTS_NEARLY;

	/* An auxiliary node has the children of its bottom node, and leaves that splits have added. */
	if (segment->leaves - segment->pure_leaves + segment->fanout < HM_AUXILIARY_NEARLY)
		return result;
	for (uint32 i = 0; i < bottom_nodes && !result; i++)
	{
		BlockNumber block = hm_segment_auxiliaries(segment)[i];
		Buffer auxiliary;

		if (!BlockNumberIsValid(block))
			continue;
		auxiliary = ReadBuffer(index, block);
		hm_auxiliary_check(index, auxiliary);
		result = hm_page_auxiliary(BufferGetPage(auxiliary))->count >= HM_AUXILIARY_NEARLY;
		ReleaseBuffer(auxiliary);
	}
	return result;
}

/*
 * Whether "count" is the first or another one of the few numbers from which on a worker is asked.
 */
static bool
is_time_to_ask(uint32 count, uint32 least)
{
	return count >= least && (count - least) % (least / 32 + 1) == 0;
}

HmUrgency
hm_movement_urgency(const HmSegment *segment, const HmAuxiliary *auxiliary, bool no_spare,
					bool has_worker)
{
	uint32 children = auxiliary != NULL ? auxiliary->count : 0;
	uint32 outgrown = hm_outgrown_leaves(segment);
	uint32 urgent = has_worker ? outgrown + outgrown * HM_URGENT_PERCENT / 100 : outgrown;

	if (segment->leaves >= urgent || children == HM_AUXILIARY_MAX ||
		(no_spare && segment->extent_count == HM_SEGMENT_MAX_EXTENTS))
		return HM_MOVE_NOW;
	if (has_worker && (is_time_to_ask(segment->leaves, outgrown) ||
					   is_time_to_ask(children, HM_AUXILIARY_NEARLY) ||
					   (no_spare && segment->extent_count >= HM_EXTENTS_NEARLY)))
		return HM_MOVE_SOON;
	return HM_MOVE_LATER;
}
