#!/bin/bash
# Compares a harmonia index with a btree index, and with a hash index where that can be
# used, on one table on a private server: build, size, look-ups, ranges, insertion,
# VACUUM.  Prints Markdown tables of medians.
#
# usage: bench/index.sh [SECTION...]
#
#   build lookup insert vacuum      default: all of them
#
# Environment: ROWS (20000000), RUNS (5), SECONDS_A_RUN (5), and the variables of
# bench/common.sh.  Takes about 400 bytes of memory and as much disk space for each row.
#
# Indexes are measured in turn, run by run, under the same settings.  All data is in
# shared buffers and fsync is off, so that the disk does not matter. pg_index.indisvalid
# hides indexes that a measurement must not use.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite index 20000000 5 5
insert_rows=$((rows / 20))
methods=(btree hash harmonia)
# Keys are spread evenly over half of the range of bigint.
range_100="(2^63 / $rows * 100)::bigint"
range_10000="(2^63 / $rows * 10000)::bigint"

# wal_since POSITION: prints the megabytes of WAL since a position.
wal_since() {
	sql -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$1') / 1e6"
}

wal_position() {
	sql -c 'SELECT pg_current_wal_insert_lsn()'
}

load_points() {
	[ -z "$(sql -c "SELECT to_regclass('points')")" ] || return 0
	say "Loading $rows rows"
	sql -c "CREATE TABLE points AS
		SELECT hashint8extended(i, 0) / 2 AS k, hashint8extended(i, 1)::bit(32)::int AS k4, i AS id
		FROM generate_series(1::bigint, $rows) i" \
		-c 'VACUUM (ANALYZE, FREEZE) points'
}

# build_row CASE WORKERS COLUMN METHOD...: measures CREATE INDEX.
build_row() {
	local case=$1 workers=$2 column=$3 run method before
	for ((run = 0; run < runs; run++)); do
		for method in "${@:4}"; do
			sql -c "DROP INDEX IF EXISTS points_$method" -c CHECKPOINT
			before=$(wal_position)
			timings "SET max_parallel_maintenance_workers = $workers" \
				'SET min_parallel_table_scan_size = 0' \
				"CREATE INDEX points_$method ON points USING $method ($column)" |
				tail -n 1 | note "$method" ms
			wal_since "$before" | note "$method" 'MB of WAL'
			sql -c "SELECT pg_relation_size('points_$method') / 1e6" | note "$method" 'MB of index'
		done
	done
	record_noted build "$case"
}

section_build() {
	load_points
	build_row 'integer keys serial' 0 k4 "${methods[@]}"
	build_row 'bigint keys one worker' 1 k btree harmonia
	build_row 'bigint keys serial' 0 k "${methods[@]}"
}

# lookup_row CASE STATEMENT SETTING METHOD...: measures a prepared statement of one
# client.
lookup_row() {
	local case=$1 statement=$2 setting=$3 run method
	options="-c enable_seqscan=off -c $setting"
	for ((run = 0; run < runs; run++)); do
		for method in "${@:4}"; do
			show_only points "points_$method"
			transactions_a_second 1 "\\set i random(1, $rows)" "$statement" |
				awk '{ print 1000 / $1 }' | note "$method" ms
		done
	done
	options=
	record_noted lookup "$case"
}

# nested_loop_row CASE COLUMNS METHOD...: measures many look-ups in one statement, where
# no client's time hides the index's.
nested_loop_row() {
	local case=$1 columns=$2 run method
	shift 2
	for ((run = 0; run < runs; run++)); do
		for method in "$@"; do
			show_only points "points_$method"
			timings 'SET enable_hashjoin = off' 'SET enable_mergejoin = off' \
				'SET enable_bitmapscan = off' 'SET enable_memoize = off' \
				'SET max_parallel_workers_per_gather = 0' 'SET harmonia.enable_lookup_join = off' \
				"SELECT $columns FROM (SELECT hashint8extended(i, 0) / 2 AS k
				 FROM generate_series(1::bigint, $rows, 100) i OFFSET 0) probes JOIN points p USING (k)" |
				tail -n 1 | note "$method" ms
		done
	done
	record_noted lookup "$case"
}

section_lookup() {
	local k='hashint8extended(:i, 0) / 2' method plain=enable_bitmapscan=off
	load_points
	for method in "${methods[@]}"; do
		sql -c "CREATE INDEX IF NOT EXISTS points_$method ON points USING $method (k)"
	done
	sql -c 'CREATE EXTENSION IF NOT EXISTS pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_hash,points_harmonia}'::regclass[]) x" \
		-c 'VACUUM ANALYZE points' >"$dir/prewarm"

	lookup_row 'one key' "SELECT id FROM points WHERE k = $k;" $plain "${methods[@]}"
	nested_loop_row 'nested loop of look-ups with heap' 'sum(p.id)' "${methods[@]}"
	nested_loop_row 'nested loop of look-ups index-only' 'count(*)' btree harmonia
	set -- btree harmonia
	lookup_row '100 rows with heap' "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_100;" $plain "$@"
	lookup_row '100 rows by bitmap' "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_100;" enable_indexscan=off "$@"
	lookup_row '100 rows index-only' "SELECT count(*) FROM points WHERE k BETWEEN $k AND $k + $range_100;" $plain "$@"
	lookup_row '10000 rows with heap' "SELECT sum(id) FROM points WHERE k BETWEEN $k AND $k + $range_10000;" $plain "$@"
	lookup_row '10000 rows index-only' "SELECT count(*) FROM points WHERE k BETWEEN $k AND $k + $range_10000;" $plain "$@"
	lookup_row 'ORDER BY ... LIMIT 10' "SELECT id FROM points WHERE k >= $k ORDER BY k LIMIT 10;" $plain "$@"
	lookup_row 'ORDER BY ... DESC LIMIT 10' "SELECT id FROM points WHERE k <= $k ORDER BY k DESC LIMIT 10;" $plain "$@"
}

# Makes a table without an index and, for each method, one with the same rows and an
# index.
load_targets() {
	local method
	sql -c 'DROP TABLE IF EXISTS points'
	for method in none "${methods[@]}"; do
		sql -c "DROP TABLE IF EXISTS target_$method" \
			-c "CREATE TABLE target_$method AS
				SELECT hashint8extended(i, 0) / 2 AS k, i AS id FROM generate_series(1::bigint, $rows) i"
		[ "$method" = none ] ||
			sql -c "CREATE INDEX index_$method ON target_$method USING $method (k)"
		sql -c "VACUUM ANALYZE target_$method"
	done
}

# insert_source [checkpoint]: inserts the table "source" into all tables.  Notes
# milliseconds and megabytes of WAL.
insert_source() {
	local method before
	for method in none "${methods[@]}"; do
		[ -z "${1:-}" ] || sql -c CHECKPOINT
		before=$(wal_position)
		timings "INSERT INTO target_$method SELECT k, id FROM source" | note "$method" ms
		wal_since "$before" | note "$method" 'MB of WAL'
	done
}

# record_shares CASE median|sum: records what each index adds to the cost of the table
# without one.
record_shares() {
	local case=$1 how=$2 system unit value count
	summary "$how" | awk -F '\t' -v OFS='\t' '
		$1 == "none" { none[$2] = $3; next } { print $1, $2, $3 - none[$2], $4 }' |
		while IFS=$'\t' read -r system unit value count; do
			record insert "$case" "$system" "$value" "$unit" "$count"
		done
}

# Makes the indexes packed again, with the first rows only.
restore_targets() {
	local method
	for method in none "${methods[@]}"; do
		sql -c "DELETE FROM target_$method WHERE id > $rows" -c "VACUUM target_$method"
		[ "$method" = none ] || sql -c "REINDEX INDEX index_$method"
	done
}

# insert_row CASE KEY [checkpoint]: measures the insertion of insert_rows rows.
insert_row() {
	local case=$1 key=$2 checkpoint=${3:-} run
	sql -c 'DROP TABLE IF EXISTS source' \
		-c "CREATE TABLE source AS SELECT $key AS k, i AS id
			FROM generate_series($rows + 1::bigint, $rows + $insert_rows) i" -c 'VACUUM ANALYZE source'
	for ((run = 0; run < runs; run++)); do
		insert_source "$checkpoint"
		restore_targets
	done
	record_shares "$case" median
}

# Grows the tables by half, with insert_rows in each statement.  Records the sum of all.
growth_row() {
	local step method
	for ((step = 1; step <= 10; step++)); do
		sql -c 'DROP TABLE IF EXISTS source' \
			-c "CREATE TABLE source AS SELECT hashint8extended(i, 0) / 2 AS k, i AS id
				FROM generate_series($rows + ($step - 1) * $insert_rows + 1::bigint, $rows + $step * $insert_rows) i"
		insert_source
	done
	record_shares "10 times as many random keys" sum
	for method in "${methods[@]}"; do
		sql -c "SELECT pg_relation_size('index_$method') / 1e6" | note "$method" 'MB of index'
	done
	record_noted insert 'size after that'
}

# What an index adds to a statement that inserts rows / 20.
section_insert() {
	load_targets
	insert_row 'random keys' 'hashint8extended(i, 0) / 2'
	insert_row 'random keys after a checkpoint' 'hashint8extended(i, 0) / 2' checkpoint
	insert_row 'ascending keys' '2^62::bigint + i'
	growth_row
}

section_vacuum() {
	local run method
	load_targets
	for ((run = 0; run < runs; run++)); do
		for method in "${methods[@]}"; do
			sql -c "DELETE FROM target_$method WHERE id % 10 = $run"
			timings "VACUUM target_$method" | note "$method" ms
		done
	done
	record_noted vacuum 'VACUUM after deleting every tenth row'
}

start_server $((rows * 500 / 1000000 + 256))
run_sections build lookup insert vacuum -- "$@"
