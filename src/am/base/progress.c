/*
 * progress.c
 *		Progress of commands that are functions.
 *
 * The server keeps the progress of one command a backend, and has views for some commands of its
 * own.  It takes numbers for names of commands, so one more is possible: no other view shows
 * it, and the server clears it at the end of a (sub)transaction that fails.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"

#include "am/progress.h"
#include "am/base/base.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(harmonia_progress);

/* Ours.  The server's are small numbers. */
#define PROGRESS_COMMAND_HARMONIA ((ProgressCommandType) 0x4d48)

/*
 * Parameters of the command.  Those of blocks are where the server's scan of a table, which reports
 * what it has read, writes them.
 */
#define PARAM_COMMAND 0
#define PARAM_PHASE 1
#define PARAM_SEGMENTS_TOTAL 2
#define PARAM_SEGMENTS_DONE 3
#define PARAM_BLOCKS_TOTAL PROGRESS_SCAN_BLOCKS_TOTAL
#define PARAM_BLOCKS_DONE PROGRESS_SCAN_BLOCKS_DONE

static bool
is_reporting(void)
{
	return MyBEEntry != NULL && MyBEEntry->st_progress_command == PROGRESS_COMMAND_HARMONIA;
}

void
hm_progress_begin(Relation index, HmProgressCommand command)
{
	if (MyBEEntry == NULL || MyBEEntry->st_progress_command != PROGRESS_COMMAND_INVALID)
		return;
	pgstat_progress_start_command(PROGRESS_COMMAND_HARMONIA, RelationGetRelid(index));
	pgstat_progress_update_param(PARAM_COMMAND, command);
}

void
hm_progress_end(void)
{
	if (is_reporting())
		pgstat_progress_end_command();
}

void
hm_progress_phase(HmProgressPhase phase, int64 segments, int64 blocks)
{
	const int params[] = {PARAM_PHASE, PARAM_SEGMENTS_TOTAL, PARAM_SEGMENTS_DONE,
						  PARAM_BLOCKS_TOTAL, PARAM_BLOCKS_DONE};
	const int64 values[] = {phase, segments, 0, blocks, 0};

	if (is_reporting())
		pgstat_progress_update_multi_param(lengthof(params), params, values);
}

void
hm_progress_segments(int64 done)
{
	if (is_reporting())
		pgstat_progress_update_param(PARAM_SEGMENTS_DONE, done);
}

void
hm_progress_blocks(int64 done)
{
	if (is_reporting())
		pgstat_progress_update_param(PARAM_BLOCKS_DONE, done);
}

/* Add what a backend reports, as far as the user may see it. */
static void
add_backend(HmRowSink *sink, const PgBackendStatus *backend)
{
	static const char *const commands[] = {[HM_PROGRESS_CHECK] = "harmonia_check",
										   [HM_PROGRESS_LOAD] = "harmonia_load",
										   [HM_PROGRESS_REORGANIZE] = "harmonia_reorganize"};
	static const char *const phases[] = {
		[HM_PROGRESS_STARTING] = "starting",
		[HM_PROGRESS_CHECKING_SEGMENTS] = "checking segments",
		[HM_PROGRESS_CHECKING_EXTENTS] = "checking extents",
		[HM_PROGRESS_CHECKING_TABLE] = "checking rows of the table",
		[HM_PROGRESS_COPYING] = "copying pages",
		[HM_PROGRESS_COUNTING] = "counting entries",
		[HM_PROGRESS_MOVING] = "moving segments",
		[HM_PROGRESS_COMPACTING] = "moving segments to the front of the file"};
	const int64 *params = backend->st_progress_param;
	bool visible = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
				   has_privs_of_role(GetUserId(), backend->st_userid);
	HmRow row = {0};

	hm_show_number(&row, backend->st_procpid);
	hm_show_number(&row, backend->st_databaseid);
	if (!visible)
	{
		for (int i = 0; i < 7; i++)
			hm_show_null(&row);
	}
	else
	{
		hm_show_number(&row, backend->st_progress_command_target);
		hm_show_text(&row, commands[params[PARAM_COMMAND]]);
		hm_show_text(&row, phases[params[PARAM_PHASE]]);
		hm_show_number(&row, params[PARAM_SEGMENTS_TOTAL]);
		hm_show_number(&row, params[PARAM_SEGMENTS_DONE]);
		hm_show_number(&row, params[PARAM_BLOCKS_TOTAL]);
		hm_show_number(&row, params[PARAM_BLOCKS_DONE]);
	}
	hm_add_row(sink, &row);
}

/*
 * harmonia_progress() returns setof record
 *		A row for each backend that runs one of the functions above, for the view
 *		pg_stat_progress_harmonia.
 */
Datum
harmonia_progress(PG_FUNCTION_ARGS)
{
	HmRowSink sink;

	hm_begin_rows(fcinfo, &sink);
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *backend = &hm_backend_status(i)->backendStatus;

		if (backend->st_progress_command == PROGRESS_COMMAND_HARMONIA)
			add_backend(&sink, backend);
	}
	return (Datum) 0;
}
