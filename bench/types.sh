#!/bin/bash
# Measures types whose keys are not exact: builds, sizes, joins and arrays, beside btree, on a
# private server.  Prints Markdown tables of medians.
#
# usage: bench/types.sh [SECTION...]
#
#   uuid4 uuid7 text_c text_icu numeric      default: all of them
#
# Environment: ROWS (5000000), PROBES (1000000), RUNS (3), and the variables of bench/common.sh.
# Takes about 400 bytes of memory and as much disk space for each row.
#
# Texts have 20 characters.  A run is a session that executes the query twice; the second time
# counts.  Systems take turns, and answers are compared.  "best plan" is the fastest of the
# planner's choice without our nodes, nested loops over a btree, hash and merge joins, each tried
# once.  Everything is in shared buffers, work_mem is 1 GB, and there are no workers.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite types 5000000 3 0
probes=${PROBES:-1000000}
settings='-c work_mem=1GB -c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0'

# Plans of PostgreSQL's own, by the settings that force them.
no_nodes='-c harmonia.enable_lookup_scan=off -c harmonia.enable_lookup_join=off'
plans=(
	"$no_nodes"
	"$no_nodes -c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off"
	"$no_nodes -c enable_mergejoin=off -c enable_nestloop=off"
	"$no_nodes -c enable_hashjoin=off -c enable_nestloop=off")

# load TYPE EXPRESSION: makes the tables.  The expression makes a value of i.
load() {
	say "Loading $rows rows"
	sql -c 'DROP TABLE IF EXISTS points, probes, arrays' \
		-c "CREATE TABLE points AS SELECT ($2)::$1 AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE probes AS SELECT ($2)::$1 AS k, p FROM
			(SELECT 1 + (hashint8extended(p, 7) & 4611686018427387903) % $rows AS i, p FROM generate_series(1, $probes) p) s" \
		-c 'CREATE TABLE arrays AS SELECT array_agg(k) AS keys FROM probes'
}

# build_rows SECTION: measures CREATE INDEX, and keeps the last two indexes.
build_rows() {
	local run method
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			sql -c "DROP INDEX IF EXISTS points_$method" -c CHECKPOINT
			timings 'SET max_parallel_maintenance_workers = 0' \
				"CREATE INDEX points_$method ON points USING $method (k)" | tail -n 1 | note "$method" ms
			sql -c "SELECT pg_relation_size('points_$method') / $rows::float8" | note "$method" 'bytes a row'
		done
	done
	record_noted "$1" build
	sql -c 'VACUUM (ANALYZE, FREEZE) points' -c 'VACUUM (ANALYZE, FREEZE) probes' -c 'ANALYZE arrays' \
		-c "SELECT pg_prewarm(c) FROM unnest('{points,probes,points_btree,points_harmonia}'::regclass[]) c" >"$dir/warmed"
}

# execute SETTINGS QUERY: prints the milliseconds of the second of two executions; the answer
# goes to $dir/answer.
execute() {
	options="$settings $1"
	timings "$2" "$2" | tail -n 1
	sql -c "$2" >"$dir/answer"
	options=
}

# query_row SECTION CASE QUERY: measures a query.
query_row() {
	local section=$1 case=$2 query=$3 plan best=none least=1e9 took run expected
	show_only points points_btree
	for plan in "${plans[@]}"; do
		options="-c statement_timeout=100s"
		took=$(execute "$plan -c statement_timeout=100s" "$query" 2>"$dir/late") || continue
		[ -n "$took" ] || continue
		if awk "BEGIN { exit !($took < $least) }"; then
			best=$plan least=$took
		fi
	done
	options=
	for ((run = 0; run < runs; run++)); do
		show_only points points_btree
		execute "$best" "$query" | note 'best plan' ms
		expected=$(cat "$dir/answer")
		show_only points points_harmonia
		execute '-c enable_hashjoin=off -c enable_mergejoin=off -c enable_nestloop=off -c enable_seqscan=on' "$query" | note harmonia ms
		[ "$(cat "$dir/answer")" = "$expected" ] || die "other answers to $query: $expected, $(cat "$dir/answer")"
	done
	record_noted "$section" "$case"
}

# section NAME TYPE EXPRESSION: all that is measured of a type.
section() {
	load "$2" "$3"
	build_rows "$1"
	query_row "$1" 'join: count' 'SELECT count(*) FROM probes p JOIN points t USING (k)'
	query_row "$1" 'join: sum' 'SELECT sum(t.v) FROM probes p JOIN points t USING (k)'
	query_row "$1" 'antijoin: count' 'SELECT count(*) FROM probes p WHERE NOT EXISTS (SELECT FROM points t WHERE t.k = p.k)'
	query_row "$1" 'array: sum' 'SELECT sum(v) FROM points WHERE k = ANY ((SELECT keys FROM arrays)::'"$2"'[])'
}

section_uuid4() { section uuid4 uuid 'md5(i::text)'; }

# Version 7: 48 bits of milliseconds, here a row each millisecond; the rest is random.
section_uuid7() {
	section uuid7 uuid "lpad(to_hex(1700000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 19)"
}

section_text_c() { section text_c text 'substr(md5(i::text), 1, 20)'; }

section_text_icu() {
	sql -c 'CREATE COLLATION IF NOT EXISTS bench (provider = icu, locale = '"'en'"')' \
		-c 'DROP DOMAIN IF EXISTS words CASCADE' -c 'CREATE DOMAIN words AS text COLLATE bench'
	section text_icu words 'substr(md5(i::text), 1, 20)'
}

section_numeric() { section numeric 'numeric(20,4)' 'hashint8extended(i, 0) / 10000.0'; }

start_server $((rows * 500 / 1000000 + 512))
sql -c 'CREATE EXTENSION pg_prewarm'
run_sections uuid4 uuid7 text_c text_icu numeric -- "$@"
