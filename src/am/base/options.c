/*
 * options.c
 *		The options of an index.
 */
#include "postgres.h"

#include "access/reloptions.h"

#include "am/base/base.h"

#define DEFAULT_FANOUT 64
#define DEFAULT_FILLFACTOR 90
#define MIN_FILLFACTOR 10

typedef struct HmOptions
{
	int32 vl_len_;
	int fanout;
	int fillfactor;
} HmOptions;

static relopt_kind option_kind;

void
hm_options_init(void)
{
	option_kind = add_reloption_kind();
	add_int_reloption(option_kind, "fanout", "Children of an inner node", DEFAULT_FANOUT,
					  HT_MIN_FANOUT, HT_MAX_FANOUT, AccessExclusiveLock);
	add_int_reloption(option_kind, "fillfactor", "Packs leaf pages only to this percentage",
					  DEFAULT_FILLFACTOR, MIN_FILLFACTOR, 100, ShareUpdateExclusiveLock);
}

bytea *
hm_options(Datum options, bool validate)
{
	static const relopt_parse_elt table[] = {
		{"fanout", RELOPT_TYPE_INT, offsetof(HmOptions, fanout)},
		{"fillfactor", RELOPT_TYPE_INT, offsetof(HmOptions, fillfactor)}};

	return (bytea *) build_reloptions(options, validate, option_kind, sizeof(HmOptions), table,
									  lengthof(table));
}

int
hm_fanout(Relation index)
{
	HmOptions *options = (HmOptions *) index->rd_options;

	return options ? options->fanout : DEFAULT_FANOUT;
}

int
hm_fillfactor(Relation index)
{
	HmOptions *options = (HmOptions *) index->rd_options;

	return options ? options->fillfactor : DEFAULT_FILLFACTOR;
}
