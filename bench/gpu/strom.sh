#!/bin/bash
# Compares joins and arrays by PG-Strom, which has hash joins on a GPU, by harmonia on the CPU and on the
# GPU, and by PostgreSQL's own plans, on a private server.  Prints Markdown tables of medians.
#
# usage: BINDIR=... bench/gpu/strom.sh [SECTION...]
#
#   joins small      default: both
#
# BINDIR has the programs of a PostgreSQL into which the extension, its daemon and PG-Strom 6 are installed:
#
#   make -C cuda && make install PG_CONFIG=$BINDIR/pg_config
#   make -C pg-strom/src install PG_CONFIG=$BINDIR/pg_config
#
# The latter wants CUDA's libcufile-dev.  Not run yet, as no GPU host with that was at hand.
#
# Environment: ROWS (20000000), PROBES (ROWS / 20), RUNS (5), OTHER_RUNS (runs of a plan that takes longer than a
# second: 2), and the variables of bench/common.sh.  Takes about 150 bytes of memory and disk space for each row.
#
# "joins" looks all probes up, "small" a hundredth of them.  Keys are random bigints, probes those of random
# rows.  All data is in shared buffers, work_mem is 1 GB, and there are no workers.  "harmonia" and "GPU" are the
# two ways of harmonia; "best plan" is the fastest of what PostgreSQL itself can do (find_best_plan in
# bench/common.sh).  The first execution in a session does not count.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

[ -n "${BINDIR:-}" ] || die 'BINDIR has to name the programs of a PostgreSQL with harmonia and PG-Strom'
start_suite strom 20000000 5 0
probes=${PROBES:-$((rows / 20))}

load() {
	say "Loading $rows rows and $probes probes"
	sql -c 'CREATE EXTENSION pg_strom' -c 'CREATE EXTENSION pg_prewarm' \
		-c "CREATE TABLE points AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE probes AS
			SELECT hashint8extended(1 + (hashint8extended(i, 1) & 4611686018427387903) % $rows, 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes) i" \
		-c 'CREATE INDEX points_btree ON points (k)' -c 'CREATE INDEX points_harmonia ON points USING harmonia (k)' \
		-c 'CREATE INDEX ON probes (p)' -c 'VACUUM (ANALYZE, FREEZE)' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_harmonia,probes}'::regclass[]) x" \
		-c "SELECT harmonia_load('points_harmonia')" >"$dir/load"
}

# section_of SECTION COUNT: with so many probes.
section_of() {
	local where="p <= $2"
	beside_best "$1" 'count(*)' "SELECT count(*) FROM probes JOIN points USING (k) WHERE $where"
	beside_best "$1" 'sum(v)' "SELECT sum(v) FROM probes JOIN points USING (k) WHERE $where"
	beside_best "$1" 'left join: sum(v)' "SELECT sum(v) FROM probes LEFT JOIN points USING (k) WHERE $where"
	beside_best "$1" 'GROUP BY' \
		"SELECT count(*), sum(s) FROM (SELECT p % 100, sum(v) AS s FROM probes JOIN points USING (k) WHERE $where GROUP BY 1) g"
	beside_best "$1" 'IN (SELECT): sum(v)' "SELECT sum(v) FROM points WHERE k IN (SELECT k FROM probes WHERE $where)"
}

section_joins() { section_of 'joins' "$probes"; }
section_small() { section_of 'a hundredth of the probes' "$((probes / 100))"; }

# PG-Strom is off but where it is asked for; so is the device.
start_server $((rows * 120 / 1000000 + 512)) -c shared_preload_libraries=pg_strom,harmonia -c pg_strom.enabled=off \
	-c harmonia.gpu=on -c harmonia.enable_device=off -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c max_worker_processes=32
load
nodes_off=$(sql -c "SELECT string_agg('-c ' || name || '=0', ' ') FROM pg_settings
	WHERE name LIKE 'harmonia.enable%' AND name NOT LIKE '%device%'")
more_systems=(['PG-Strom']="$nodes_off -c pg_strom.enabled=on" [GPU]='-c harmonia.enable_device=on')
run_sections joins small -- "$@"
