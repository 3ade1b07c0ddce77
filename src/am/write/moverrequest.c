/*
 * moverrequest.c
 *		Asking for a background worker that moves segments (maintain/mover.c).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
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
	BackgroundWorker worker = {0};
	Oid			relation = RelationGetRelid(index);

	if (hm_mover_is_there(index))
		return true;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "harmonia", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "hm_mover_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "harmonia movement", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "harmonia movement", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	memcpy(worker.bgw_extra, &relation, sizeof(relation));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

void
hm_mover_init(void)
{
	DefineCustomBoolVariable("harmonia.background_movement",
							 "Lets a background worker move segments that inserts have made grow.",
							 "Otherwise the insert that finds a segment grown moves it.",
							 &background_movement, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}
