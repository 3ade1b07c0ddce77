#!/bin/bash
# Measures types whose keys have 128 bits or are not exact, keys of several columns, and included columns: builds,
# sizes, joins, arrays and lists of rows, beside btree, on private servers.  Prints Markdown tables of medians.
#
# usage: bench/types.sh [SECTION...]
#
#   uuid4 uuid7 text_c text_icu numeric
#   bigints tenants uuids texts               of two columns
#   included                                  a bigint, the other column included      default: all of them
#
# Environment:
#
#   ROWS (10000000), PROBES (1000000), RUNS (3)
#   OTHER_PG_CONFIG  pg_config of another version of PostgreSQL, for which a copy of the
#                    checkout is built; or OTHER_BINDIR, its programs with the extension
#   and the variables of bench/common.sh
#
# Takes about 400 bytes of memory and as much disk space for each row, and twice as much with
# another PostgreSQL.
#
# Texts have 20 characters.  "tenants" has 1000 rows of each tenant: (integer, bigint).  A run is a
# session that executes the query twice; the second time counts.  Systems take turns, and answers are
# compared.  "best plan" is the fastest of the planner's choice without our nodes, nested loops over a
# btree, hash and merge joins, each tried once.  Everything is in shared buffers, work_mem is 1 GB, and
# there are no workers.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite types 10000000 3 0
include=
probes=${PROBES:-1000000}
settings='-c work_mem=1GB -c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0'

# Plans of PostgreSQL's own, by the settings that force them.
no_nodes='-c harmonia.enable_lookup_scan=off -c harmonia.enable_lookup_join=off'
plans=(
	"$no_nodes"
	"$no_nodes -c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off"
	"$no_nodes -c enable_mergejoin=off -c enable_nestloop=off"
	"$no_nodes -c enable_hashjoin=off -c enable_nestloop=off")

megabytes=$((rows * 500 / 1000000 + 512))
servers=(main)
# What is added to the names of systems, by server; and each server's best plan.
declare -A suffix=([main]='') best=()

prepare_other() {
	local programs=${OTHER_BINDIR:-}
	[ -n "${OTHER_PG_CONFIG:-}$programs" ] || return 0
	[ -n "$programs" ] || programs=$(install_copy other "$OTHER_PG_CONFIG")
	add_server other "$programs" "$megabytes"
	sql -c 'CREATE EXTENSION pg_prewarm'
	servers+=(other)
	suffix[other]=" PostgreSQL $(sql -c "SELECT current_setting('server_version_num')::int / 10000")"
}

# load TYPE EXPRESSION...: makes the tables, with a column for each pair.  Expressions make values of
# i, from 0 on.  $columns become the names of the columns.
load() {
	local list='' n=0
	columns=''
	while [ $# -gt 0 ]; do
		n=$((n + 1))
		columns=$columns${columns:+, }k$n
		list="$list($2)::$1 AS k$n, "
		shift 2
	done
	say "Loading $rows rows"
	sql -c 'DROP TABLE IF EXISTS points, probes, arrays' \
		-c "CREATE TABLE points AS SELECT $list i::int AS v FROM generate_series(0::bigint, $rows - 1) i" \
		-c "CREATE TABLE probes AS SELECT $list p FROM
			(SELECT (hashint8extended(p, 7) & 4611686018427387903) % $rows AS i, p FROM generate_series(1, $probes) p) s"
	if [ "$n" = 1 ]; then
		sql -c 'CREATE TABLE arrays AS SELECT array_agg(k1) AS keys FROM probes'
	fi
}

# build_rows SECTION: measures CREATE INDEX, and keeps the last two indexes.
build_rows() {
	local server run method
	for server in "${servers[@]}"; do
		use_server "$server"
		for ((run = 0; run < runs; run++)); do
			for method in btree harmonia; do
				sql -c "DROP INDEX IF EXISTS points_$method" -c CHECKPOINT
				timings 'SET max_parallel_maintenance_workers = 0' \
					"CREATE INDEX points_$method ON points USING $method ($columns) $include" | tail -n 1 | note "$method${suffix[$server]}" ms
				sql -c "SELECT pg_relation_size('points_$method') / $rows::float8" | note "$method${suffix[$server]}" 'bytes a row'
			done
		done
		sql -c 'VACUUM (ANALYZE, FREEZE) points' -c 'VACUUM (ANALYZE, FREEZE) probes' \
			-c "SELECT pg_prewarm(c) FROM unnest('{points,probes,points_btree,points_harmonia}'::regclass[]) c" >"$dir/warmed"
	done
	record_noted "$1" build
}

# execute SETTINGS QUERY: prints the milliseconds of the second of two executions; the answer
# goes to $dir/answer.
execute() {
	options="$settings $1"
	timings "$2" "$2" | tail -n 1
	sql -c "$2" >"$dir/answer"
	options=
}

# find_best SERVER QUERY: sets the best plan of the server, which is in use.
find_best() {
	local server=$1 query=$2 plan least=1e9 took
	best[$server]=none
	show_only points points_btree
	for plan in "${plans[@]}"; do
		options="-c statement_timeout=100s"
		took=$(execute "$plan -c statement_timeout=100s" "$query" 2>"$dir/late") || continue
		[ -n "$took" ] || continue
		if awk "BEGIN { exit !($took < $least) }"; then
			best[$server]=$plan least=$took
		fi
	done
	options=
}

# query_row SECTION CASE QUERY: measures a query.
query_row() {
	local section=$1 case=$2 query=$3 server run expected=''
	for server in "${servers[@]}"; do
		use_server "$server"
		find_best "$server" "$query"
	done
	for ((run = 0; run < runs; run++)); do
		for server in "${servers[@]}"; do
			use_server "$server"
			show_only points points_btree
			execute "${best[$server]}" "$query" | note "best plan${suffix[$server]}" ms
			[ -n "$expected" ] || expected=$(cat "$dir/answer")
			[ "$(cat "$dir/answer")" = "$expected" ] || die "other answers to $query: $expected, $(cat "$dir/answer")"
			show_only points points_harmonia
			execute '-c enable_hashjoin=off -c enable_mergejoin=off -c enable_nestloop=off -c enable_seqscan=on' "$query" |
				note "harmonia${suffix[$server]}" ms
			[ "$(cat "$dir/answer")" = "$expected" ] || die "other answers to $query: $expected, $(cat "$dir/answer")"
		done
	done
	record_noted "$section" "$case"
}

# joins SECTION: measures the joins.
joins() {
	query_row "$1" 'join: count' "SELECT count(*) FROM probes p JOIN points t USING ($columns)"
	query_row "$1" 'join: sum' "SELECT sum(t.v) FROM probes p JOIN points t USING ($columns)"
	query_row "$1" 'antijoin: count' "SELECT count(*) FROM probes p WHERE NOT EXISTS (SELECT FROM points t WHERE ($2))"
}

# section NAME TYPE EXPRESSION: all that is measured of a type.
section() {
	local server
	for server in "${servers[@]}"; do
		use_server "$server"
		load "$2" "$3"
	done
	build_rows "$1"
	joins "$1" 't.k1 = p.k1'
	query_row "$1" 'array: sum' 'SELECT sum(v) FROM points WHERE k1 = ANY ((SELECT keys FROM arrays)::'"$2"'[])'
}

# pair_section NAME TYPE EXPRESSION TYPE EXPRESSION: all that is measured of two columns.  The list has a
# thousand rows, some of which are not there.
pair_section() {
	local server list one
	for server in "${servers[@]}"; do
		use_server "$server"
		load "$2" "$3" "$4" "$5"
	done
	build_rows "$1"
	joins "$1" 't.k1 = p.k1 AND t.k2 = p.k2'
	use_server main
	list=$(sql -c "SELECT string_agg(format('(%L, %L)', k1, k2), ', ') FROM (SELECT k1, k2 FROM probes ORDER BY p LIMIT 1000) s")
	one=$(sql -c 'SELECT quote_literal(k1) FROM probes WHERE p = 7')
	query_row "$1" 'list of 1000 rows: sum' "SELECT sum(v) FROM points WHERE (k1, k2) IN ($list)"
	query_row "$1" 'one first value: sum' "SELECT sum(v) FROM points WHERE k1 = $one"
	query_row "$1" 'join with one first value: sum' "SELECT sum(t.v) FROM probes p JOIN points t ON t.k1 = $one AND t.k2 = p.k2"
}

section_uuid4() { section uuid4 uuid 'md5(i::text)'; }

# Version 7: 48 bits of milliseconds, here a row each millisecond; the rest is random.
section_uuid7() {
	section uuid7 uuid "lpad(to_hex(1700000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 19)"
}

section_text_c() { section text_c text 'substr(md5(i::text), 1, 20)'; }

section_text_icu() {
	local server
	for server in "${servers[@]}"; do
		use_server "$server"
		sql -c 'CREATE COLLATION IF NOT EXISTS bench (provider = icu, locale = '"'en'"')' \
			-c 'DROP DOMAIN IF EXISTS words CASCADE' -c 'CREATE DOMAIN words AS text COLLATE bench'
	done
	section text_icu words 'substr(md5(i::text), 1, 20)'
}

section_numeric() { section numeric 'numeric(20,4)' 'hashint8extended(i, 0) / 10000.0'; }

# Random bigints have different upper halves, which the index hashes.
section_bigints() { pair_section bigints bigint 'hashint8extended(i / 10, 0)' bigint 'hashint8extended(i, 1)'; }

section_tenants() { pair_section tenants int 'i / 1000' bigint 'i'; }

section_uuids() { pair_section uuids int 'i / 1000' uuid 'md5(i::text)'; }

section_texts() { pair_section texts int 'i / 1000' text 'substr(md5(i::text), 1, 20)'; }

section_included() {
	include='INCLUDE (v)'
	section included bigint 'hashint8extended(i, 0)'
	include=
}

start_server "$megabytes"
sql -c 'CREATE EXTENSION pg_prewarm'
prepare_other
run_sections uuid4 uuid7 text_c text_icu numeric bigints tenants uuids texts included -- "$@"
