#!/bin/bash
# Compares the time that planning takes with the hooks of harmonia and without, on a private
# server.  Prints a Markdown table of medians.
#
# usage: bench/planning.sh [SECTION...]
#
#   tables partitions      all of them if none is named
#
# PARTITIONS (1000) and RUNS (15), the pairs of plans of each query, may be set.  A query of
# few tables is planned 50 times as often.  "Without" are plans of the same session with
# harmonia.enable_lookup_scan and _join off, where the hooks return at once.  The two take
# turns.  What counts is the processor time of the planner (log_planner_stats), so that other
# work on the machine matters less.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

unset ROWS # which are not partitions
start_suite planning "${PARTITIONS:-1000}" 15 0

# partitioned NAME METHOD: a table of $rows partitions by k, with indexes on k and v.
partitioned() {
	sql -c "CREATE TABLE $1 (k int, v int, w int) PARTITION BY RANGE (k)" \
		-c "DO \$\$
			BEGIN
				FOR i IN 0..$rows - 1 LOOP
					EXECUTE format('CREATE TABLE $1_%s PARTITION OF $1 FOR VALUES FROM (%s) TO (%s)', i, i * 10, i * 10 + 10);
				END LOOP;
			END \$\$" \
		-c "INSERT INTO $1 SELECT i, i, i FROM generate_series(0, $rows * 10 - 1) i" \
		-c "CREATE INDEX ON $1 USING $2 (k)" \
		-c "CREATE INDEX ON $1 USING $2 (v)"
}

load() {
	local name
	say "Loading tables of $rows partitions"
	for name in h1 h2; do partitioned "$name" harmonia; done
	for name in b1 b2; do partitioned "$name" btree; done
	for name in s1 s2; do
		sql -c "CREATE TABLE $name AS SELECT i AS k, i AS v FROM generate_series(1, 10000) i" \
			-c "CREATE INDEX ON $name USING harmonia (k)" \
			-c "CREATE INDEX ON $name (v)"
	done
	sql -c ANALYZE
}

# statements PAIRS SETTING QUERY: plans in turns, after one of each that does not count.
statements() {
	local i order mode
	echo "LOAD 'harmonia'; SET max_parallel_workers_per_gather = 0; $2"
	echo "EXPLAIN $3;"
	echo 'SET client_min_messages = log; SET log_min_messages = fatal; SET log_planner_stats = on;'
	for ((i = 0; i < $1; i++)); do
		order='on off'
		((i % 2)) || order='off on'
		for mode in $order; do
			echo "SET harmonia.enable_lookup_scan = $mode; SET harmonia.enable_lookup_join = $mode;"
			echo "\\warn plans $mode"
			echo "EXPLAIN $3;"
		done
	done
}

# query_row SECTION CASE PAIRS SETTING QUERY
query_row() {
	local mode
	statements "$3" "$4" "$5" | psql -X -A -t -q -v ON_ERROR_STOP=1 2>&1 >/dev/null |
		awk '/^plans / { mode = $2; wanted = 1 }
			wanted && match($0, /[0-9.]+ s user, [0-9.]+ s system/) {
				split(substr($0, RSTART), f, " ")
				print mode, 1000 * (f[1] + f[4])
				wanted = 0
			}' >"$dir/plans"
	for mode in off on; do
		awk -v mode="$mode" '$1 == mode { print $2 }' "$dir/plans" >"$dir/$mode"
		record "$1" "$2" "$([ "$mode" = on ] && echo with hooks || echo without)" \
			"$(median <"$dir/$mode")" ms "$3"
	done
}

section_tables() {
	local pairs=$((runs * 50))
	query_row 'planning with few tables' 'one key' "$pairs" '' 'SELECT * FROM s1 WHERE k = 3'
	query_row 'planning with few tables' 'an array' "$pairs" '' 'SELECT * FROM s1 WHERE k IN (1, 2, 3)'
	query_row 'planning with few tables' 'two tables' "$pairs" '' \
		'SELECT * FROM s1 JOIN s2 USING (k) WHERE s1.v = 3'
	query_row 'planning with few tables' 'five tables' "$pairs" '' \
		'SELECT * FROM s1 a, s1 b, s2 c, s1 d, s2 e WHERE a.k = b.k AND b.k = c.k AND c.v = d.k AND e.k = d.v'
}

section_partitions() {
	local title='planning with partitions'
	query_row "$title" 'one key' "$runs" '' 'SELECT * FROM h1 WHERE v = 3'
	query_row "$title" 'an array' "$runs" '' 'SELECT * FROM h1 WHERE v IN (1, 2, 3)'
	query_row "$title" 'joined by the partition key' "$runs" '' 'SELECT * FROM h1 JOIN h2 USING (k)'
	query_row "$title" 'partition by partition' "$runs" 'SET enable_partitionwise_join = on;' \
		'SELECT * FROM h1 JOIN h2 USING (k)'
	query_row "$title" 'joined by another key' "$runs" '' 'SELECT * FROM h1 JOIN h2 USING (v)'
	query_row "$title" 'joined without an index' "$runs" '' 'SELECT * FROM h1 JOIN h2 USING (w)'
	query_row "$title" 'btree alone' "$runs" '' 'SELECT * FROM b1 JOIN b2 USING (k)'
}

start_server 256 -c max_locks_per_transaction=1000
load
run_sections tables partitions -- "$@"
