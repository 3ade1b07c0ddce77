#!/bin/bash
# Compares parallel lookups with PostgreSQL's own parallel plans, on a private server.
# Prints Markdown tables of medians.
#
# usage: bench/parallel.sh [SECTION...]
#
#   joins dense scans planned plain      default: all of them
#
# Environment: ROWS (20000000), RUNS (5), PROBES (ROWS / 7; outer rows of joins), WORKERS
# ("0 2 4 8 15"), WORK_MEM (256MB), and the variables of bench/common.sh.  Takes about 180
# bytes of memory and as much disk space for each row, and 50 for each probe.
#
# "best plan" is the fastest of what the planner chooses without lookups, and of that without
# nested loops.  "harmonia" is a lookup.  "chosen" is what the planner chooses of all.  The
# remark names the plan and its number of workers.  All data is in shared buffers.  All plans
# are run in turn.
#
# "plain" compares index scans of one range with btree's.
#
# "joins", "dense", "scans" and "plain" have so many workers, whatever the tables' sizes: their
# storage parameter parallel_workers says so.  In "planned", that number is the maximum, and
# the planner chooses.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite parallel 20000000 5 0
probes=${PROBES:-$((rows / 7))}
read -r -a worker_counts <<<"${WORKERS:-0 2 4 8 15}"
work_mem=${WORK_MEM:-256MB}

# Keys of random rows, and of rows of which only one in a hundred exists.
load() {
	say "Loading $rows rows and $probes probes"
	sql -c "CREATE TABLE points AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v, (i % 100)::int AS s
			FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE probes AS
			SELECT hashint8extended(1 + n % $rows, 0) AS k, hashint8extended(1 + n % ($rows * 100), 0) AS rare, i::int AS p
			FROM (SELECT i, hashint8extended(i, 1) & 4611686018427387903 AS n
				FROM generate_series(1::bigint, $probes) i) r" \
		-c 'CREATE INDEX points_btree ON points (k)' \
		-c 'CREATE INDEX points_k ON points USING harmonia (k)' \
		-c 'CREATE INDEX points_s ON points USING harmonia (s)' \
		-c 'CREATE INDEX points_s_btree ON points (s)' \
		-c 'VACUUM (ANALYZE, FREEZE)' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(oid) FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace" \
		>"$dir/load"
}

# set_workers NUMBER: gives both tables so many workers; RESET: as many as the planner wants.
set_workers() {
	local table
	for table in points probes; do
		if [ "$1" = RESET ]; then
			sql -c "ALTER TABLE $table RESET (parallel_workers)"
		else
			sql -c "ALTER TABLE $table SET (parallel_workers = $1)"
		fi
	done
}

# plan_of QUERY: prints the name of the query's plan and its number of workers.
plan_of() {
	sql -c "EXPLAIN (COSTS OFF) $1" | awk '
		/Workers Planned/ { workers = $3 }
		plan == "" && match($0, /HarmoniaLookup(Join|Scan)|Parallel Hash [A-Za-z ]*Join|Hash [A-Za-z ]*Join|Merge [A-Za-z ]*Join|Nested Loop[A-Za-z ]*|Bitmap Heap Scan|Index Only Scan|Index Scan|Seq Scan/) {
			plan = substr($0, RSTART, RLENGTH)
		}
		END { print plan ", " workers + 0 " workers" }'
}

# row SECTION CASE WORKERS QUERY: measures one query by all plans, in turn.
row() {
	local section=$1 case=$2 workers=$3 query=$4 system run best=''
	local common="-c work_mem=$work_mem -c max_parallel_workers_per_gather=$workers"
	local off='-c harmonia.enable_lookup_scan=off -c harmonia.enable_lookup_join=off'
	local -A settings=([core]=$off ['core without loops']="$off -c enable_nestloop=off"
		[chosen]=''
		[harmonia]='-c enable_hashjoin=off -c enable_mergejoin=off -c enable_nestloop=off -c enable_bitmapscan=off -c enable_indexscan=off')
	local -A plans=() times=()
	for system in "${!settings[@]}"; do
		options="$common ${settings[$system]}"
		plans[$system]=$(plan_of "$query")
	done
	for ((run = 0; run < runs; run++)); do
		for system in "${!settings[@]}"; do
			options="$common ${settings[$system]}"
			# The first time, the session sees its pages for the first time.
			times[$system]+=" $(timings "$query" "$query" "$query" | tail -n +2 | median)"
		done
	done
	options=
	for system in "${!settings[@]}"; do
		# shellcheck disable=SC2086
		times[$system]=$(printf '%s\n' ${times[$system]} | median)
	done
	best=core
	awk "BEGIN { exit !(${times['core without loops']} < ${times[core]}) }" && best='core without loops'
	record "$section" "$case" 'best plan' "${times[$best]}" ms "$runs" "${plans[$best]/,/;}"
	record "$section" "$case" harmonia "${times[harmonia]}" ms "$runs" "${plans[harmonia]/,/;}"
	record "$section" "$case" chosen "${times[chosen]}" ms "$runs" "${plans[chosen]/,/;}"
}

section_joins() {
	local workers
	for workers in "${worker_counts[@]}"; do
		set_workers "$workers"
		row joins "sum(v); $workers workers" "$workers" 'SELECT sum(v) FROM probes JOIN points USING (k)'
		row joins "count(*); $workers workers" "$workers" 'SELECT count(*) FROM probes JOIN points USING (k)'
		row joins "EXISTS; $workers workers" "$workers" \
			'SELECT sum(p) FROM probes WHERE EXISTS (SELECT FROM points WHERE points.k = probes.k)'
		row joins "one hit in a hundred; $workers workers" "$workers" \
			'SELECT sum(v) FROM probes JOIN points ON points.k = rare'
	done
}

# As many outer rows as inner ones: a hash join reads both tables once.
section_dense() {
	local workers
	for workers in "${worker_counts[@]}"; do
		set_workers "$workers"
		row dense "$rows outer rows; sum; $workers workers" "$workers" \
			'SELECT sum(a.v - b.v) FROM points a JOIN points b ON b.k = a.k'
	done
}

section_scans() {
	local workers
	for workers in "${worker_counts[@]}"; do
		set_workers "$workers"
		row scans "ranges of a tenth; count(*); $workers workers" "$workers" \
			'SELECT count(*) FROM points WHERE k BETWEEN 0 AND 922337203685477580 OR k BETWEEN 4000000000000000000 AND 4922337203685477580'
		row scans "ranges of a tenth; sum(v); $workers workers" "$workers" \
			'SELECT sum(v) FROM points WHERE k BETWEEN 0 AND 922337203685477580 OR k BETWEEN 4000000000000000000 AND 4922337203685477580'
		row scans "10 of 100 values; count(*); $workers workers" "$workers" \
			'SELECT count(*) FROM points WHERE s IN (3, 13, 23, 33, 43, 53, 63, 73, 83, 93)'
		row scans "10 of 100 values; sum(v); $workers workers" "$workers" \
			'SELECT sum(v) FROM points WHERE s IN (3, 13, 23, 33, 43, 53, 63, 73, 83, 93)'
	done
}

section_planned() {
	local workers few
	set_workers RESET
	for workers in "${worker_counts[@]}"; do
		for few in 1000 $((probes / 100)) $((probes / 10)) "$probes"; do
			row planned "$few probes; at most $workers workers" "$workers" \
				"SELECT sum(v) FROM probes JOIN points USING (k) WHERE p <= $few"
		done
	done
}

section_plain() {
	local workers method case columns index run
	local -A indexes=([k btree]=points_btree [k harmonia]=points_k [s_v btree]=points_s_v_btree [s_v harmonia]=points_s_v) queries=(
		['index only; half of the table']='SELECT count(k) FROM points WHERE k > 0'
		['index only; in order']='SELECT count(*) FROM (SELECT DISTINCT k FROM points WHERE k > 0) s'
		['a twentieth of the table']='SELECT sum(v) FROM points WHERE k BETWEEN 0 AND 922337203685477580'
		['two columns; index only; half of the table']='SELECT s, max(v) FROM points WHERE s < 50 GROUP BY s')
	sql -c 'CREATE INDEX points_s_v ON points USING harmonia (s, v)' -c 'CREATE INDEX points_s_v_btree ON points (s, v)' \
		-c "SELECT pg_prewarm('points_s_v'), pg_prewarm('points_s_v_btree')" >"$dir/load"
	for workers in "${worker_counts[@]}"; do
		set_workers "$workers"
		options="-c max_parallel_workers_per_gather=$workers -c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashagg=off"
		options+=" -c harmonia.enable_lookup_scan=off -c harmonia.enable_lookup_aggregate=off"
		for case in "${!queries[@]}"; do
			columns=k
			[[ $case != 'two columns'* ]] || columns=s_v
			for ((run = 0; run < runs; run++)); do
				for method in btree harmonia; do
					index=${indexes[$columns $method]}
					show_only points "$index"
					sql -c "EXPLAIN ${queries[$case]}" | grep -q "using $index on" || die "another plan: ${queries[$case]}"
					timings "${queries[$case]}" "${queries[$case]}" "${queries[$case]}" | tail -n +2 | median | note "$method" ms
				done
			done
			record_noted 'plain index scans' "$case; $workers workers"
		done
		options=
	done
	sql -c 'DROP INDEX points_s_v, points_s_v_btree'
	show_only points points_btree points_k points_s points_s_btree
}

start_server $((rows * 200 / 1000000 + probes * 60 / 1000000 + 512)) \
	-c max_worker_processes=64 -c max_parallel_workers=64
load
run_sections joins dense scans planned plain -- "$@"
