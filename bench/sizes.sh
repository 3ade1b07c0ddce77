#!/bin/bash
# Measures how many bytes a row takes in a harmonia index and in a btree index, and how long these
# take to build, on private servers.  Prints Markdown tables of medians, and which targets are
# reached.
#
# usage: bench/sizes.sh [SECTION...]
#
#   build grow      default: all of them
#
# Environment:
#
#   ROWS (10000000), RUNS (3; sizes are the same in each run)
#   OTHER_PG_CONFIG  pg_config of another version of PostgreSQL, for which a copy of the
#                    checkout is built; or OTHER_BINDIR, its programs with the extension
#   and the variables of bench/common.sh
#
# Takes about 400 bytes of memory and as much disk space for each row, and twice as much with
# another PostgreSQL.  "build" is CREATE INDEX without workers; "grow" inserts four fifths of the
# rows one by one into an empty table with an index, without queues of entries.  Fill factors are
# the default ones.  Everything is in shared buffers, and fsync is off.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite sizes 10000000 3 0
megabytes=$((rows * 400 / 1000000 + 256))
servers=(main)
# What is added to the names of systems, by server.
declare -A suffix=([main]='')

prepare_other() {
	local programs=${OTHER_BINDIR:-}
	if [ -z "${OTHER_PG_CONFIG:-}$programs" ]; then
		warn 'Neither OTHER_PG_CONFIG nor OTHER_BINDIR is set: only one version of PostgreSQL'
		return 0
	fi
	[ -n "$programs" ] || programs=$(install_copy other "$OTHER_PG_CONFIG")
	add_server other "$programs" "$megabytes"
	servers+=(other)
	suffix[other]=" PostgreSQL $(sql -c "SELECT current_setting('server_version_num')::int / 10000")"
}

# load TYPE EXPRESSION: makes the table; the expression makes a value of i, from 1 to $rows.
load() {
	sql -c 'DROP TABLE IF EXISTS points' \
		-c "CREATE TABLE points AS SELECT ($2)::$1 AS k FROM generate_series(1::bigint, $rows) i" \
		-c 'VACUUM (ANALYZE, FREEZE) points'
}

# note_size METHOD INDEX ROWS: notes the bytes of a row.
note_size() {
	sql -c "SELECT pg_relation_size('$2') / $3::float8" | note "$1${suffix[$server]}" 'bytes a row'
}

# build_row CASE TYPE EXPRESSION: measures CREATE INDEX with each method.
build_row() {
	local server run method
	for server in "${servers[@]}"; do
		use_server "$server"
		load "$2" "$3"
		for ((run = 0; run < runs; run++)); do
			for method in btree harmonia; do
				sql -c "DROP INDEX IF EXISTS points_$method" -c CHECKPOINT
				timings 'SET max_parallel_maintenance_workers = 0' \
					"CREATE INDEX points_$method ON points USING $method (k)" |
					tail -n 1 | note "$method${suffix[$server]}" ms
				note_size "$method" "points_$method" "$rows"
			done
		done
	done
	record_noted build "$1"
}

section_build() {
	build_row 'bigserial' bigint i
	build_row 'timestamps a second apart' timestamptz "'2000-01-01'::timestamptz + i * interval '1 s'"
	build_row 'random bigint' bigint 'hashint8extended(i, 0)'
	build_row 'random int' int 'hashint8(i)'
	build_row '100 rows a key in any order' int "(hashint8extended(i, 0) & 4611686018427387903) % ($rows / 100)"
	build_row '100 rows a random bigint in any order' bigint \
		"hashint8extended((hashint8extended(i, 0) & 4611686018427387903) % ($rows / 100), 1)"
	build_row '20 keys in any order' int '(hashint8extended(i, 0) & 4611686018427387903) % 20'
	build_row 'one key' int 7
}

# grow_row CASE TYPE EXPRESSION: measures insertion, row by row, into a table with an index.
grow_row() {
	local server method count=$((rows * 4 / 5))
	for server in "${servers[@]}"; do
		use_server "$server"
		for method in btree harmonia; do
			sql -c 'DROP TABLE IF EXISTS grown' -c "CREATE TABLE grown (k $2)" \
				-c "CREATE INDEX grown_k ON grown USING $method (k)" -c CHECKPOINT
			timings 'SET harmonia.batch_inserts = off' \
				"INSERT INTO grown SELECT ($3)::$2 FROM generate_series(1::bigint, $count) i" |
				tail -n 1 | note "$method${suffix[$server]}" ms
			note_size "$method" grown_k "$count"
		done
	done
	record_noted grow "$1"
}

section_grow() {
	grow_row 'ascending bigint' bigint i
	grow_row 'timestamps a second apart' timestamptz "'2000-01-01'::timestamptz + i * interval '1 s'"
	grow_row 'descending bigint' bigint '-i'
	grow_row 'random bigint' bigint 'hashint8extended(i, 0)'
	grow_row '100 rows a key in any order' int "(hashint8extended(i, 0) & 4611686018427387903) % ($rows / 100)"
	grow_row '20 keys in any order' int '(hashint8extended(i, 0) & 4611686018427387903) % 20'
	grow_row 'one key' int 7
}

start_server "$megabytes"
prepare_other
run_sections build grow -- "$@"
print_targets
