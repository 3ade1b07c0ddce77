#!/bin/bash
# Compares a harmonia index with btree on one table, on a private server: build,
# size, look-ups, ranges, insertion, VACUUM.  Prints a Markdown table of medians.
#
# usage: bench/index.sh [SECTION...]
#
#   build lookup insert vacuum      all of them if none is named
#
# ROWS (20000000), RUNS (5) and SECONDS_A_RUN (5, for pgbench) may be set.  Takes some
# 300 bytes of memory a row and as much disk space, and half an hour.
#
# Both indexes are measured in turn, run by run, under the same settings, with all
# data in shared buffers and fsync off, so that the disk does not count.  Where one
# index must not be in the way of the other, pg_index.indisvalid hides it.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

rows=${ROWS:-20000000}
runs=${RUNS:-5}
seconds_a_run=${SECONDS_A_RUN:-5}
insert_rows=$((rows / 20))
# Keys are spread evenly over half of the range of bigint.
range_100="(2^63 / $rows * 100)::bigint"
range_10000="(2^63 / $rows * 10000)::bigint"

# Milliseconds that a statement takes, after others given before it that prepare.
milliseconds() {
	local statement=${*: -1} preparation=()
	local before
	for before in "${@:1:$#-1}"; do
		preparation+=(-c "$before")
	done
	sql "${preparation[@]}" -c '\timing on' -c "$statement" |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}

# row NAME BTREE HARMONIA TARGET: prints a line of the table; both are costs, so
# that a ratio below 1 is in favour of harmonia.
row() {
	awk -v name="$1" -v btree="$2" -v harmonia="$3" -v target="$4" 'BEGIN {
		printf "| %s | %.4g | %.4g | %.2f | %s |\n", name, btree, harmonia, harmonia / btree, target
	}' | tee -a "$dir/table"
}

# Leave only one of a table's indexes to the planner.
show_only() {
	sql -c "UPDATE pg_index SET indisvalid = indexrelid = '$1'::regclass
		WHERE indexrelid IN ('points_btree'::regclass, 'points_harmonia'::regclass)"
}

load_points() {
	say "Loading $rows rows"
	sql -c "CREATE TABLE points AS
		SELECT hashint8extended(i, 0) / 2 AS k, hashint8extended(i, 1)::bit(32)::int AS k4, i AS id
		FROM generate_series(1::bigint, $rows) i" \
		-c 'VACUUM (ANALYZE, FREEZE) points'
}

# build_row NAME WORKERS COLUMN TARGET
build_row() {
	local name=$1 workers=$2 column=$3 target=$4 run method
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			milliseconds "DROP INDEX IF EXISTS points_$method" \
				"SET max_parallel_maintenance_workers = $workers" \
				"SET min_parallel_table_scan_size = 0" \
				"CREATE INDEX points_$method ON points USING $method ($column)" \
				>>"$dir/$method.build"
		done
	done
	row "$name, ms" "$(median <"$dir/btree.build")" "$(median <"$dir/harmonia.build")" "$target"
	rm "$dir"/*.build
	row "size, $column, MB" \
		"$(sql -c "SELECT pg_relation_size('points_btree') / 1e6")" \
		"$(sql -c "SELECT pg_relation_size('points_harmonia') / 1e6")" \
		"$([ "$column" = k ] && echo 0.83 || echo 0.62)"
}

section_build() {
	build_row "CREATE INDEX, integer, serial" 0 k4 '1 / 2.5'
	build_row "CREATE INDEX, bigint, 1 worker" 1 k '1 / 2'
	build_row "CREATE INDEX, bigint, serial" 0 k '1 / 2.5'
}

# lookup_row NAME CLIENTS STATEMENT [SETTING]
lookup_row() {
	local name=$1 clients=$2 statement=$3 setting=${4:-enable_bitmapscan=off} run method
	printf '%s\n' "\\set i random(1, $rows)" "$statement" >"$dir/script"
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			show_only "points_$method"
			PGOPTIONS="-c enable_seqscan=off -c $setting" pgbench -n -M prepared \
				-c "$clients" -j 2 -T "$seconds_a_run" -f "$dir/script" |
				sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p' >>"$dir/$method.latency"
		done
	done
	row "$name, ms" "$(median <"$dir/btree.latency")" "$(median <"$dir/harmonia.latency")" 1.1
	rm "$dir"/*.latency
}

# Many look-ups in one statement, where no client's time hides the index's.
nested_loop_row() {
	local name=$1 columns=$2 run method
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			show_only "points_$method"
			milliseconds 'SET enable_hashjoin = off' 'SET enable_mergejoin = off' \
				'SET enable_bitmapscan = off' 'SET enable_memoize = off' \
				'SET max_parallel_workers_per_gather = 0' 'SET harmonia.enable_lookup_join = off' \
				"SELECT $columns FROM (SELECT hashint8extended(i, 0) / 2 AS k
				 FROM generate_series(1::bigint, $rows, 100) i OFFSET 0) probes JOIN points p USING (k)" \
				>>"$dir/$method.loop"
		done
	done
	row "$name, ms" "$(median <"$dir/btree.loop")" "$(median <"$dir/harmonia.loop")" 1.1
	rm "$dir"/*.loop
}

section_lookup() {
	local k='hashint8extended(:i, 0) / 2' method clients
	for method in btree harmonia; do
		sql -c "CREATE INDEX IF NOT EXISTS points_$method ON points USING $method (k)"
	done
	sql -c 'CREATE EXTENSION IF NOT EXISTS pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_harmonia}'::regclass[]) x" \
		-c 'VACUUM ANALYZE points' >"$dir/prewarm"

	for clients in 1 4; do
		lookup_row "one key, $clients client(s)" "$clients" "SELECT id FROM points WHERE k = $k;"
	done
	nested_loop_row 'nested loop of look-ups, with heap' 'sum(p.id)'
	nested_loop_row 'nested loop of look-ups, index-only' 'count(*)'
	lookup_row '100 rows, with heap' 1 "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_100;"
	lookup_row '100 rows, bitmap' 1 "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_100;" enable_indexscan=off
	lookup_row '100 rows, index-only' 1 "SELECT count(*) FROM points WHERE k BETWEEN $k AND $k + $range_100;"
	lookup_row '10,000 rows, with heap' 1 "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_10000;"
	lookup_row '10,000 rows, index-only' 1 "SELECT count(*) FROM points WHERE k BETWEEN $k AND $k + $range_10000;"
	lookup_row 'ORDER BY ... LIMIT 10' 1 "SELECT id FROM points WHERE k >= $k ORDER BY k LIMIT 10;"
	lookup_row 'ORDER BY ... DESC LIMIT 10' 1 "SELECT id FROM points WHERE k <= $k ORDER BY k DESC LIMIT 10;"
}

# Three tables of the same rows: without an index, with btree, with harmonia.
load_targets() {
	local method
	for method in none btree harmonia; do
		sql -c "DROP TABLE IF EXISTS target_$method" \
			-c "CREATE TABLE target_$method AS
				SELECT hashint8extended(i, 0) / 2 AS k, i AS id FROM generate_series(1::bigint, $rows) i"
		[ $method = none ] ||
			sql -c "CREATE INDEX index_$method ON target_$method USING $method (k)"
		sql -c "VACUUM ANALYZE target_$method"
	done
}

# Insert a table's rows; notes milliseconds and megabytes of WAL.
insert_into() {
	local method=$1 source=$2 before
	before=$(sql -c 'SELECT pg_current_wal_insert_lsn()')
	milliseconds "INSERT INTO target_$method SELECT k, id FROM $source" >>"$dir/$method.ms"
	sql -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before') / 1e6" >>"$dir/$method.wal"
}

# What the index adds to the cost of the table without one.
share_rows() {
	local name=$1 time_target=$2 wal_target=$3 kind target none
	for kind in ms wal; do
		none=$(median <"$dir/none.$kind")
		target=$([ $kind = ms ] && echo "$time_target" || echo "$wal_target")
		row "$name, index share, $([ $kind = ms ] && echo ms || echo 'MB of WAL')" \
			"$(awk -v a="$(median <"$dir/btree.$kind")" -v b="$none" 'BEGIN { print a - b }')" \
			"$(awk -v a="$(median <"$dir/harmonia.$kind")" -v b="$none" 'BEGIN { print a - b }')" "$target"
		rm "$dir"/*."$kind"
	done
}

# Back to packed indexes of the first rows.
restore_targets() {
	local method
	for method in none btree harmonia; do
		sql -c "DELETE FROM target_$method WHERE id > $rows" -c "VACUUM target_$method"
		[ $method = none ] || sql -c "REINDEX INDEX index_$method"
	done
}

# insert_row NAME KEY TIME-TARGET WAL-TARGET [checkpoint]
insert_row() {
	local name=$1 key=$2 time_target=$3 wal_target=$4 checkpoint=${5:-} run method
	sql -c 'DROP TABLE IF EXISTS source' \
		-c "CREATE TABLE source AS SELECT $key AS k, i AS id
			FROM generate_series($rows + 1::bigint, $rows + $insert_rows) i" -c 'VACUUM ANALYZE source'
	for ((run = 0; run < runs; run++)); do
		for method in none btree harmonia; do
			[ -z "$checkpoint" ] || sql -c CHECKPOINT
			insert_into $method source
		done
		restore_targets
	done
	share_rows "$name" "$time_target" "$wal_target"
}

# Grow by half, a statement of insert_rows at a time; the sum of all.
growth_row() {
	local step method kind
	for ((step = 1; step <= 10; step++)); do
		sql -c 'DROP TABLE IF EXISTS source' \
			-c "CREATE TABLE source AS SELECT hashint8extended(i, 0) / 2 AS k, i AS id
				FROM generate_series($rows + ($step - 1) * $insert_rows + 1::bigint, $rows + $step * $insert_rows) i"
		for method in none btree harmonia; do
			insert_into $method source
		done
	done
	for method in none btree harmonia; do
		for kind in ms wal; do
			awk '{ s += $1 } END { print s }' "$dir/$method.$kind" >"$dir/sum"
			mv "$dir/sum" "$dir/$method.$kind"
		done
	done
	share_rows "10 times $insert_rows random keys" '' ''
	row "size after that, MB" "$(sql -c "SELECT pg_relation_size('index_btree') / 1e6")" \
		"$(sql -c "SELECT pg_relation_size('index_harmonia') / 1e6")" ''
}

section_insert() {
	sql -c 'DROP TABLE IF EXISTS points'
	load_targets
	insert_row "$insert_rows random keys" 'hashint8extended(i, 0) / 2' 0.5 1
	insert_row "$insert_rows random keys after a checkpoint" 'hashint8extended(i, 0) / 2' 0.5 1 checkpoint
	insert_row "$insert_rows ascending keys" '2^62::bigint + i' 1 1
	growth_row
}

section_vacuum() {
	local run method
	sql -c 'DROP TABLE IF EXISTS points'
	load_targets
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			sql -c "DELETE FROM target_$method WHERE id % 10 = $run"
			milliseconds "VACUUM target_$method" >>"$dir/$method.vacuum"
		done
	done
	row "VACUUM after deleting every tenth row, ms" "$(median <"$dir/btree.vacuum")" \
		"$(median <"$dir/harmonia.vacuum")" 1
}

start_server $((rows * 400 / 1000000 + 256))

sections=("$@")
[ $# -gt 0 ] || sections=(build lookup insert vacuum)
for section in "${sections[@]}"; do
	case $section in
		build | lookup) [ -n "$(sql -c "SELECT to_regclass('points')")" ] || load_points ;;
	esac
	say "Section $section"
	"section_$section"
done

say "$(sql -c 'SELECT version()'), $(nproc) processors, $rows rows, medians of $runs runs"
printf '| | btree | harmonia | ratio | target |\n| --- | --- | --- | --- | --- |\n'
cat "$dir/table"
