/*
 * wide.cu
 *		The section for keys of 128 bits: uuids, and ids of tenants.
 */
#include "lookups.h"

void
bench_wide(const Entries<WideKey> &entries, Buffers &buffers)
{
	Copy copy(entries, HD_DEFAULT_FANOUT);
	Lookups<WideKey> lookups(entries, buffers);

	for (Draw draw : all_draws)
	{
		lookups.prepare(options.queries, draw);
		for (Answer answer : {PAIRS, ROWS, COUNTED, TALLIED})
			lookups.report(
				text("wide %s %s", entries.serial ? "tenants" : "uuid", answer_name(answer)),
				std::to_string(entries.keys.size()), draw_name(draw), copy.index, HD_DEFAULT_FANOUT,
				answer);
	}
}
