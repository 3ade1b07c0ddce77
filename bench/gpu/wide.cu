/*
 * wide.cu
 *		The section for keys of 128 bits: uuids, and ids of tenants.
 */
#include "lookups.h"

void
bench_wide(const Entries<WideKey> &entries, Buffers &buffers)
{
	Copy		copy(entries, HD_DEFAULT_FANOUT);
	Lookups<WideKey> lookups(entries, buffers);

	for (Draw draw : all_draws)
	{
		lookups.prepare(options.queries, draw);
		for (HdOutput output : {HD_FIRST, HD_PAIRS, HD_COUNT})
			lookups.report(text("wide %s %s", entries.serial ? "tenants" : "uuid", output_name(output)),
						   std::to_string(entries.keys.size()), draw_name(draw), copy.index,
						   HD_DEFAULT_FANOUT, output);
	}
}
