/*
 * handler.c
 *		The access method's handler and its index options.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "access/stratnum.h"
#include "access/xlog.h"
#include "commands/vacuum.h"
#include "fmgr.h"

#include "am/internal.h"
#include "compat.h"

static relopt_kind option_kind;

void
hm_options_init(void)
{
	option_kind = add_reloption_kind();
	add_int_reloption(option_kind, "fanout",
					  "Children of an inner node",
					  HM_DEFAULT_FANOUT, HT_MIN_FANOUT, HT_MAX_FANOUT,
					  AccessExclusiveLock);
	add_int_reloption(option_kind, "fillfactor",
					  "Packs leaf pages only to this percentage",
					  HM_DEFAULT_FILLFACTOR, HM_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
}

static bytea *
handler_options(Datum options, bool validate)
{
	static const relopt_parse_elt table[] = {
		{"fanout", RELOPT_TYPE_INT, offsetof(HmOptions, fanout)},
		{"fillfactor", RELOPT_TYPE_INT, offsetof(HmOptions, fillfactor)}
	};

	return (bytea *) build_reloptions(options, validate, option_kind,
									  sizeof(HmOptions), table, lengthof(table));
}

int
hm_fanout(Relation index)
{
	HmOptions  *options = (HmOptions *) index->rd_options;

	return options ? options->fanout : HM_DEFAULT_FANOUT;
}

int
hm_fillfactor(Relation index)
{
	HmOptions  *options = (HmOptions *) index->rd_options;

	return options ? options->fillfactor : HM_DEFAULT_FILLFACTOR;
}

/*
 * Index-only scans need the value bit for bit.  They also need VACUUM to wait for their
 * pins, which replay on a standby does not do.
 */
bool
hm_can_return(Relation index, int attno)
{
	return hm_key_type(index)->returnable && !RecoveryInProgress();
}

/*
 * By default, PostgreSQL says that any method with amgettuple can exclude; a build
 * refuses that.
 */
static bool
handler_property(Oid index_oid, int attno, IndexAMProperty property,
				 const char *name, bool *result, bool *isnull)
{
	if (property != AMPROP_CAN_EXCLUDE || OidIsValid(index_oid))
		return false;
	*result = false;
	return true;
}

PG_FUNCTION_INFO_V1(harmonia_handler);
Datum
harmonia_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	/* Strategies are btree's; there are no support functions. */
	routine->amstrategies = BTMaxStrategyNumber;
	routine->amsupport = 0;
	routine->amoptsprocnum = 0;
	routine->amcanorder = true;
	routine->amcanorderbyop = false;
	routine->amcanbackward = true;
	routine->amcanunique = false;
	routine->amcanmulticol = false;
	routine->amoptionalkey = true;
	routine->amsearcharray = true;
	routine->amsearchnulls = true;
	routine->amstorage = false;
	routine->amclusterable = true;
	routine->ampredlocks = false;
	routine->amcanparallel = false;
	routine->amcaninclude = false;
	routine->amusemaintenanceworkmem = false;
	routine->amparallelvacuumoptions =
		VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP;
	routine->amkeytype = InvalidOid;
	HM_SET_ROUTINE_EXTRAS(routine);

	routine->ambuild = hm_build;
	routine->ambuildempty = hm_build_empty;
	routine->aminsert = hm_insert;
	routine->ambulkdelete = hm_bulk_delete;
	routine->amvacuumcleanup = hm_vacuum_cleanup;
	routine->amcanreturn = hm_can_return;
	routine->amcostestimate = hm_cost_estimate;
	routine->amoptions = handler_options;
	routine->amproperty = handler_property;
	routine->ambuildphasename = hm_build_phase_name;
	routine->amvalidate = hm_validate;
	routine->amadjustmembers = NULL;
	routine->ambeginscan = hm_begin_scan;
	routine->amrescan = hm_rescan;
	routine->amgettuple = hm_get_tuple;
	routine->amgetbitmap = hm_get_bitmap;
	routine->amendscan = hm_end_scan;
	routine->ammarkpos = hm_mark_position;
	routine->amrestrpos = hm_restore_position;
	routine->amestimateparallelscan = NULL;
	routine->aminitparallelscan = NULL;
	routine->amparallelrescan = NULL;

	PG_RETURN_POINTER(routine);
}
