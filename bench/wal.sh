#!/bin/bash
# Measures how much WAL an index adds while its table grows to eight times its rows, and while
# rows are updated again and again, on a private server: harmonia beside btree.  Prints Markdown
# tables, and which targets are reached.
#
# usage: bench/wal.sh [SECTION...]
#
#   grow update      default: both
#
# Environment: ROWS (8000000), CASES (a pattern: cases of "grow" to be run), and the variables of bench/common.sh.  Takes about 300 bytes of memory
# and as much disk space for each row.
#
# Each access method has its own table with the same rows, and there is one without an index.  What
# the latter takes is subtracted: the heap's records, commits and checkpoints.  So the figures are
# what the index adds, headers of records and page images included.  full_page_writes is on,
# wal_compression off.  Checkpoints come where a case has them, alike for all tables, and before each
# table is filled further.  WAL does not depend on time, so each case runs once.  All figures are 64-bit
# keys.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite wal 8000000 1 0
base=$((rows / 8))
methods=(none btree harmonia)

wal_position() {
	sql -c 'SELECT pg_current_wal_insert_lsn()'
}

# wal_since POSITION: prints the bytes of WAL since a position.
wal_since() {
	sql -c "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$1')"
}

# load METHOD KEY: makes the table "grown" with the first eighth of the rows, and the index.  KEY makes
# a key of i.
load() {
	sql -c 'DROP TABLE IF EXISTS grown' \
		-c "CREATE TABLE grown AS SELECT $2 AS k, i AS id FROM generate_series(1::bigint, $base) i"
	[ "$1" = none ] || sql -c "CREATE INDEX grown_k ON grown USING $1 (k)"
	sql -c 'VACUUM (ANALYZE, FREEZE) grown' -c CHECKPOINT
}

# add METHOD FROM TO KEY ROWS: adds rows, so many a statement; 1 is for rows that are indexed one
# by one, as those of single-row statements are.
add() {
	local from=$2 last=$3 key=$4 count=$5 batch=on to
	[ "$count" -gt 1 ] || {
		batch=off
		count=$((last - from + 1))
	}
	for (( ; from <= last; from = to + 1)); do
		to=$((from + count - 1 < last ? from + count - 1 : last))
		sql -c "SET harmonia.batch_inserts = $batch" \
			-c "INSERT INTO grown SELECT $key, i FROM generate_series($from::bigint, $to) i"
	done
}

# grow_case NAME KEY ROWS [checkpoint]: records the WAL of each index when the table has twice to eight
# times as many rows, and the index's size.
grow_case() {
	local name=$1 key=$2 count=$3 checkpoint=${4:-} method step start
	local -A wal=() size=()
	# shellcheck disable=SC2254
	case $name in
		${CASES:-*}) ;;
		*) return 0 ;;
	esac
	for method in "${methods[@]}"; do
		load "$method" "$key"
		start=$(wal_position)
		for step in 2 3 4 5 6 7 8; do
			[ -z "$checkpoint" ] || sql -c CHECKPOINT
			add "$method" $((base * (step - 1) + 1)) $((base * step)) "$key" "$count"
			wal[$method,$step]=$(wal_since "$start")
			[ "$method" = none ] || size[$method,$step]=$(sql -c "SELECT pg_relation_size('grown_k') / ($base.0 * $step)")
		done
	done
	for step in 2 3 4 5 6 7 8; do
		for method in btree harmonia; do
			record "WAL by times as many rows: $name" "$step" "$method" \
				"$(awk -v all="${wal[$method,$step]}" -v none="${wal[none,$step]}" -v n=$((base * (step - 1))) \
					'BEGIN { print (all - none) / n }')" 'bytes a row' 1 | tee -a "$dir/rates"
			record "size by times as many rows: $name" "$step" "$method" "${size[$method,$step]}" 'bytes a row' 1
		done
	done

	# Splits come in waves, so the mean of the steps tells more than any of them.
	for method in btree harmonia; do
		record 'WAL: mean of the steps' "$name" "$method" \
			"$(awk -v method="| $method: " 'i = index($0, method) { sum += substr($0, i + length(method)) + 0; n++ } END { print sum / n }' "$dir/rates")" \
			'bytes a row' 1
	done
	rm "$dir/rates"
}

section_grow() {
	local random='hashint8extended(i, 0)' many=$((base / 10))
	grow_case 'random keys in statements' "$random" "$many"
	grow_case 'random keys one by one' "$random" 1
	grow_case 'random keys one by one with checkpoints' "$random" 1 checkpoint
	grow_case 'ascending keys in statements' i "$many"
	grow_case 'ascending keys one by one' i 1
}

# A tenth of the rows gets other random keys, then VACUUM, ten times.
section_update() {
	local method step start
	local -A wal=()
	for method in "${methods[@]}"; do
		load "$method" 'hashint8extended(i, 0)'
		for ((step = 1; step <= 10; step++)); do
			start=$(wal_position)
			sql -c "UPDATE grown SET k = hashint8extended(id, $step) WHERE id % 10 = $step % 10" \
				-c 'VACUUM (INDEX_CLEANUP on) grown'
			wal[$method,$step]=$(wal_since "$start")
		done
	done
	for ((step = 1; step <= 10; step++)); do
		for method in btree harmonia; do
			record 'WAL by rounds of UPDATE and VACUUM' "$step" "$method" \
				"$(awk -v all="${wal[$method,$step]}" -v none="${wal[none,$step]}" -v n=$((base / 10)) \
					'BEGIN { print (all - none) / n }')" 'bytes a changed row' 1
		done
	done
}

start_server $((rows * 150 / 1000000 + 256))
run_sections grow update -- "$@"
print_targets
