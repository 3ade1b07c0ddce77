/*
 * moverrequest.c
 *		Asking for a background worker that moves segments (maintain/mover.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "am/write/write.h"
#include "compat.h"

static bool background_movement = true;

bool
hm_mover_is_possible(Relation index)
{
	return background_movement && IsUnderPostmaster && !RelationUsesLocalBuffers(index) &&
		   index->rd_createSubid == InvalidSubTransactionId &&
		   hm_first_file_subid(index) == InvalidSubTransactionId;
}

bool
hm_mover_ask(Relation index)
{
	return hm_mover_is_there(index) ||
		   hm_start_worker("hm_mover_main", "harmonia movement", RelationGetRelid(index));
}

void
hm_mover_init(void)
{
	DefineCustomBoolVariable("harmonia.background_movement",
							 "Lets a background worker move segments that inserts have made grow.",
							 "Otherwise the insert that finds a segment grown moves it.",
							 &background_movement, true, PGC_USERSET, 0, NULL, NULL, NULL);
}
