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
 *
 * The planner asks this of every index of a table, so nothing is read from the index: a damaged one
 * must not keep the table from being read.  Nor must a partitioned one, which is never scanned, and may be of a type
 * that no index can be built for.  If an index has other fields than new ones get, scans
 * return what its keys do not tell from the table.  So they do not compute expressions.
 */
bool
hm_can_return(Relation index, int attno)
{
	const int	key_count = IndexRelationGetNumberOfKeyAttributes(index);
	HmFields	fields;

	if (RecoveryInProgress() || index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
		return false;
	if (!hm_is_composite(index))
		return hm_key_type(index)->returnable;
	if (index->rd_index->indkey.values[attno - 1] == 0)
		return false;

	/* Included columns are in keys in full, and so are key columns beside them. */
	if (attno > key_count)
		return TupleDescAttr(RelationGetDescr(index), attno - 1)->attbyval;
	if (!hm_column_type(index, attno - 1)->returnable)
		return false;
	if (key_count < IndexRelationGetNumberOfAttributes(index))
		return true;
	hm_fields_plan(index, &fields);
	return hm_field_is_returnable(&fields.fields[attno - 1]);
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

static const IndexAmRoutine routine = {
	.type = T_IndexAmRoutine,

	/* Strategies are btree's; there are no support functions. */
	.amstrategies = BTMaxStrategyNumber,
	.amsupport = 0,
	.amoptsprocnum = 0,
	.amcanorder = true,
	.amcanorderbyop = false,
	.amcanbackward = true,
	.amcanunique = false,
	.amcanmulticol = true,
	.amoptionalkey = true,
	.amsearcharray = true,
	.amsearchnulls = true,
	.amstorage = false,
	.amclusterable = true,
	.ampredlocks = false,
	.amcanparallel = true,
	.amcaninclude = true,
	.amusemaintenanceworkmem = false,
	.amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL |
	VACUUM_OPTION_PARALLEL_COND_CLEANUP,
	.amkeytype = InvalidOid,
	HM_ROUTINE_EXTRAS

	.ambuild = hm_build,
	.ambuildempty = hm_build_empty,
	.aminsert = hm_insert,
	.ambulkdelete = hm_bulk_delete,
	.amvacuumcleanup = hm_vacuum_cleanup,
	.amcanreturn = hm_can_return,
	.amcostestimate = hm_cost_estimate,
	.amoptions = handler_options,
	.amproperty = handler_property,
	.ambuildphasename = hm_build_phase_name,
	.amvalidate = hm_validate,
	.amadjustmembers = NULL,
	.ambeginscan = hm_begin_scan,
	.amrescan = hm_rescan,
	.amgettuple = hm_get_tuple,
	.amgetbitmap = hm_get_bitmap,
	.amendscan = hm_end_scan,
	.ammarkpos = hm_mark_position,
	.amrestrpos = hm_restore_position,
	.amestimateparallelscan = hm_estimate_parallel_scan,
	.aminitparallelscan = hm_init_parallel_scan,
	.amparallelrescan = hm_parallel_rescan,
};

PG_FUNCTION_INFO_V1(harmonia_handler);
Datum
harmonia_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(hm_handed_over(&routine));
}
