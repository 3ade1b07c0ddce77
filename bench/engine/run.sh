#!/bin/bash
# Look-ups a second of the batch lookup engine on one processor, all in shared buffers,
# on a private server.  Prints a Markdown table.
#
# usage: bench/engine/run.sh
#
# ROWS (2^26) in the index, half a million at least; takes some 100 bytes of memory
# and 60 of disk a row.  HUGE_PAGES=on reserves nothing by itself: set
# vm.nr_hugepages before.  VARIANT (best): avx512, avx2, portable.
#
# Millions a second are of CPU time of the backend, sorting of the probes included,
# in the best of several rounds, of which each looks other keys up; ns a probe are
# elapsed time, longer where others use the processor.  Where few probes meet on a
# leaf, memory decides: huge pages and buffers in key order make it twice as fast.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"

rows=${ROWS:-$((1 << 26))}
variant=${VARIANT:-best}
batches='(1, 3000), (10, 2000), (100, 1000), (1000, 500), (10000, 100), (100000, 20), (1000000, 6), (10000000, 2)'
distributions='uniform normal gamma zipf serial clustered'

clean_up() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	"$root/tools/private-server.sh" stop "$dir" -m immediate || true
	rm -rf "$dir"
	exit "$status"
}

sql() {
	psql -X -A -t -q -v ON_ERROR_STOP=1 "$@"
}

find_pg_config
dir=$(make_private_dir)
trap clean_up EXIT
trap 'exit 130' INT TERM
private_bindir=$("$root/tools/private-install.sh" "$dir/install")
make -s -C "$root/bench/engine" PG_CONFIG="$(command -v "$PG_CONFIG")" install DESTDIR="$dir/install"
settings=$("$root/tools/private-server.sh" start "$dir" "$private_bindir" \
	-c fsync=off -c autovacuum=off -c max_wal_size=10GB -c maintenance_work_mem=2GB \
	-c huge_pages="${HUGE_PAGES:-off}" -c shared_buffers="$((rows * 40 / 1048576 + 256))MB")
eval "$settings"

say "Loading $rows rows"
sql -c 'CREATE EXTENSION harmonia' -c 'CREATE EXTENSION harmonia_engine' \
	-c "CREATE UNLOGGED TABLE t AS SELECT hashint8extended(i, 0) AS k8,
		hashint8extended(i, 7)::bit(32)::int AS k4 FROM generate_series(1::bigint, $rows) i"
sql -c 'CREATE INDEX t_k8 ON t USING harmonia (k8)' -c 'CREATE INDEX t_k4 ON t USING harmonia (k4)'

say "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $rows entries, variant $variant"
printf '| key bits | distribution | batch | millions a second | sort ns | search ns | leaves |\n'
printf '| --- | --- | --- | --- | --- | --- | --- |\n'
for distribution in $distributions; do
	sql -c "SELECT format('| %s | $distribution | %s | %s | %s | %s | %s |', bits, batch,
			round(best::numeric, 2), round(sort_ns::numeric, 1), round(search_ns::numeric, 1), leaves)
		FROM (VALUES (64, 't_k8'), (32, 't_k4')) w(bits, index), (VALUES $batches) b(batch, rounds),
			harmonia_bench_lookup(index::regclass, batch, rounds, '$distribution', 1, '$variant')"
done
