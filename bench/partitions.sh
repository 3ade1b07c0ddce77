#!/bin/bash
# Compares queries with many keys on tables of many partitions with PostgreSQL's own plans, on a
# private server: planning and execution.  Prints Markdown tables of medians.
#
# usage: bench/partitions.sh [SECTION...]
#
#   hash range      how the table is partitioned; default: both
#
# Environment: ROWS (20000000), PROBES (100000), PARTITION_COUNTS ("1 8 64 256 1000"; 1 is a table without),
# RUNS (5), OTHER_RUNS (runs of a plan that takes longer than a second: 2), and the variables of
# bench/common.sh.  Takes about 250 bytes of memory and disk space for each row.
#
# Columns k and other are random, and each has a btree and a harmonia index; the table is partitioned by
# k.  Probes are values of random rows.  Planning is part of each execution, and has tables of its
# own.  Workers are off, work_mem is 64 MB.  "best plan" is the fastest of what PostgreSQL itself can do
# (find_best_plan in bench/common.sh); for arrays also with the same question as a join.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite partitions 20000000 5 0
probes=${PROBES:-100000}
read -ra partitions <<<"${PARTITION_COUNTS:-1 8 64 256 1000}"

# random_row SEED: an expression for the number of a row that depends on i.
random_row() {
	echo "1 + (hashint8extended(i, $1) & 4611686018427387903) % $rows"
}

load_probes() {
	sql -c "CREATE TABLE probes AS
			SELECT hashint8extended(row, 0) AS k, hashint8extended(row, 1) AS other
			FROM (SELECT $(random_row 2) AS row FROM generate_series(1::bigint, $probes) i) r" \
		-c 'CREATE TABLE arrays AS SELECT array_agg(k) AS keys FROM probes' \
		-c 'VACUUM (ANALYZE, FREEZE) probes, arrays'
}

# bounds KIND COUNT NUMBER: prints what follows FOR VALUES of a partition.  Ranges have the same width.
bounds() {
	local from=MINVALUE to=MAXVALUE half=$((9223372036854775807 / $2))
	if [ "$1" = hash ]; then
		echo "WITH (MODULUS $2, REMAINDER $3)"
		return
	fi
	(($3 == 0)) || from=$((-9223372036854775807 + $3 * 2 * half))
	(($3 == $2 - 1)) || to=$((-9223372036854775807 + ($3 + 1) * 2 * half))
	echo "FROM ($from) TO ($to)"
}

# load_points KIND COUNT
load_points() {
	local i column
	say "Loading $rows rows, $2 partitions by $1"
	{
		echo 'SET client_min_messages = warning;'
		echo 'DROP TABLE IF EXISTS points;'
		if [ "$2" -eq 1 ]; then
			echo 'CREATE TABLE points (k bigint, other bigint, v int);'
		else
			echo "CREATE TABLE points (k bigint, other bigint, v int) PARTITION BY $1 (k);"
			for ((i = 0; i < $2; i++)); do
				echo "CREATE TABLE points_$i PARTITION OF points FOR VALUES $(bounds "$1" "$2" "$i");"
			done
		fi
		echo "INSERT INTO points
			SELECT hashint8extended(i, 0), hashint8extended(i, 1), i FROM generate_series(1::bigint, $rows) i;"
		for column in k other; do
			echo "CREATE INDEX ON points ($column); CREATE INDEX ON points USING harmonia ($column);"
		done
		echo 'VACUUM (ANALYZE, FREEZE) points;'
	} >"$dir/load.sql"
	sql -f "$dir/load.sql"
}

# measure KIND COUNT WHAT QUERY [QUERY]: the time in all, and the planner's.
measure() {
	local run system i statements
	local -A options_of=() query_of=()
	beside_best "$1 partitions: $3" "$2" "${@:4}"
	options_of=([harmonia]='' ['best plan']=$best_options)
	query_of=([harmonia]=$4 ['best plan']=$best_query)
	for ((run = 0; run < runs; run++)); do
		for system in harmonia 'best plan'; do
			statements=()
			for ((i = 0; i < 6; i++)); do
				statements+=(-c "EXPLAIN (SUMMARY) ${query_of[$system]}")
			done
			options=${options_of[$system]}
			sql "${statements[@]}" | sed -n 's/^Planning Time: \([0-9.]*\) ms$/\1/p' | tail -n +2 | median |
				note "$system" ms
		done
	done
	options=
	record_noted "$1 partitions: planning of $3" "$2"
}

# section_of KIND
section_of() {
	local count
	for count in "${partitions[@]}"; do
		load_points "$1" "$count"
		measure "$1" "$count" 'join by the partition key' 'SELECT sum(v) FROM probes JOIN points USING (k)'
		measure "$1" "$count" '= ANY of the partition key' \
			'SELECT sum(v) FROM points WHERE k = ANY ((SELECT keys FROM arrays)::bigint[])' \
			'SELECT sum(v) FROM points WHERE k IN (SELECT unnest(keys) FROM arrays)'
		measure "$1" "$count" 'join by another column' 'SELECT sum(v) FROM probes JOIN points USING (other)'
	done
	record_worst "$1 partitions: join by the partition key"
	record_worst "$1 partitions: = ANY of the partition key"
	record_worst "$1 partitions: join by another column"
}

section_hash() { section_of hash; }
section_range() { section_of range; }

start_server $((rows * 180 / 1000000 + 256)) -c max_parallel_workers_per_gather=0 \
	-c session_preload_libraries=harmonia -c work_mem=64MB -c max_locks_per_transaction=1000
load_probes
run_sections hash range -- "$@"
print_targets
