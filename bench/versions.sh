#!/bin/bash
# Compares harmonia with the btree and hash indexes of several versions of PostgreSQL in one run, on
# private servers.  Prints Markdown tables of medians.
#
# usage: bench/versions.sh [SECTION...]
#
#   build queries insert      default: all of them
#
# Environment:
#
#   ROWS (5000000), PROBES (ROWS / 50), RUNS (5)
#   PG_CONFIGS     the pg_config of each version, separated by spaces; a copy of the checkout is built for
#                  each: "/usr/lib/postgresql/15/bin/pg_config /usr/lib/postgresql/18/bin/pg_config".
#                  Default: the one PostgreSQL that all scripts take
#   BINDIRS        instead, the programs of each version, with the extension
#   and the variables of bench/common.sh
#
# Takes about 300 bytes of memory and disk space for each row and version.
#
# Keys are random bigints, probes those of random rows.  Versions and indexes take turns.  A query of one
# kind of index sees no other index (pg_index.indisvalid), and has the plan that is best with it
# (find_best_plan in bench/common.sh); harmonia has what the planner chooses.  The first execution in a
# session does not count.  work_mem is 64 MB, and there are no workers.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite versions 5000000 5 0
probes=${PROBES:-$((rows / 50))}
methods=(btree hash harmonia)
servers=()
megabytes=$((rows * 200 / 1000000 + 256))
settings=(-c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0 -c work_mem=64MB
	-c session_preload_libraries=harmonia)

# add_version PROGRAMS: starts a server.
add_version() {
	local name=main
	[ ${#servers[@]} -eq 0 ] || name=version_${#servers[@]}
	add_server "$name" "$1" "$megabytes" "${settings[@]}"
	servers+=("$name")
}

start_servers() {
	local pg_config programs
	for pg_config in ${PG_CONFIGS:-}; do
		say "Building for $("$pg_config" --version)"
		programs=$(install_copy "copy_${#servers[@]}" "$pg_config")
		add_version "$programs"
	done
	for programs in ${BINDIRS:-}; do
		add_version "$programs"
	done
	[ ${#servers[@]} -eq 0 ] || return 0
	start_server "$megabytes" "${settings[@]}"
	servers=(main)
}

# title WHAT: a table's name, with the version of the server in use.
title() {
	echo "PostgreSQL $(sql -c "SELECT current_setting('server_version_num')::int / 10000"): $1"
}

load() {
	local server method
	for server in "${servers[@]}"; do
		use_server "$server"
		say "Loading $rows rows"
		sql -c "CREATE TABLE points AS
				SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
			-c "CREATE TABLE probes AS
				SELECT hashint8extended(1 + (hashint8extended(i, 1) & 4611686018427387903) % $rows, 0) AS k, i::int AS p
				FROM generate_series(1::bigint, $probes) i" \
			-c 'CREATE TABLE arrays AS SELECT array_agg(k) AS keys FROM probes' -c 'VACUUM (ANALYZE, FREEZE)'
		for method in "${methods[@]}"; do
			sql -c "CREATE INDEX points_$method ON points USING $method (k)"
		done
	done
}

# in_turns FUNCTION ARGUMENT...: calls the function for each run, server and method, with these three and the
# arguments.  It notes figures, as those of SERVER:METHOD.
in_turns() {
	local run server method
	for ((run = 0; run < runs; run++)); do
		for server in "${servers[@]}"; do
			use_server "$server"
			for method in "${methods[@]}"; do
				"$1" "$server" "$method" "${@:2}"
			done
		done
	done
	summary median >"$dir/medians"
}

# record_case SECTION CASE: records what in_turns has noted, in a table for each version.
record_case() {
	local server system unit value count
	for server in "${servers[@]}"; do
		use_server "$server"
		while IFS=$'\t' read -r system unit value count; do
			[[ $system != "$server:"* ]] ||
				record "$(title "$1")" "$2" "${system#*:}" "$value" "$unit" "$count" "${plan_name[$system]:-}"
		done <"$dir/medians"
	done
}

build() {
	sql -c "DROP INDEX points_$2" -c CHECKPOINT
	timings "CREATE INDEX points_$2 ON points USING $2 (k)" | note "$1:$2" ms
	sql -c "SELECT pg_relation_size('points_$2') / 1e6" | note "$1:$2" MB
}

section_build() {
	local -A plan_name=()
	in_turns build
	record_case build 'CREATE INDEX'
}

query() {
	show_only points "points_$2"
	options=${options_of[$1:$2]}
	run_in_turn "$1:$2" "${query_of[$1:$2]}" "${times_of[$1:$2]}"
	options=
}

# measure CASE QUERY [QUERY]: the second one is the same question in other words.
measure() {
	local server method expected
	local -A options_of=() query_of=() times_of=() plan_name=()
	for server in "${servers[@]}"; do
		use_server "$server"
		for method in btree hash harmonia; do
			show_only points "points_$method"
			query_of[$server:$method]=$2
			options_of[$server:$method]=
			times_of[$server:$method]=5
			if [ "$method" != harmonia ]; then
				find_best_plan "${@:3}" "$2"
				query_of[$server:$method]=$best_query
				options_of[$server:$method]=$best_options
				times_of[$server:$method]=$((best_ms < 1000 ? 5 : 1))
			fi
			options=${options_of[$server:$method]}
			plan_name[$server:$method]=$(plan_of "${query_of[$server:$method]}")
			options=
		done
	done
	in_turns query
	record_case queries "$1"
}

section_queries() {
	measure 'one key' "SELECT sum(v) FROM points WHERE k = hashint8extended($rows / 2, 0)"
	measure '1000 keys in = ANY' "SELECT sum(v) FROM points WHERE k = ANY ((SELECT keys[:1000] FROM arrays)::bigint[])" \
		'SELECT sum(v) FROM points WHERE k IN (SELECT unnest(keys[:1000]) FROM arrays)'
	measure 'all probes in = ANY' "SELECT sum(v) FROM points WHERE k = ANY ((SELECT keys FROM arrays)::bigint[])" \
		'SELECT sum(v) FROM points WHERE k IN (SELECT unnest(keys) FROM arrays)'
	measure 'join: sum(v)' 'SELECT sum(v) FROM probes JOIN points USING (k)'
	measure 'EXISTS' 'SELECT sum(p) FROM probes WHERE EXISTS (SELECT FROM points WHERE points.k = probes.k)'
	measure 'NOT EXISTS' 'SELECT count(*) FROM probes WHERE NOT EXISTS (SELECT FROM points WHERE points.k = probes.k + 1)'
}

# Into a copy with this index alone.
insert() {
	sql -c "CREATE TABLE grown (LIKE points)" -c 'INSERT INTO grown SELECT * FROM points' \
		-c "CREATE INDEX grown_k ON grown USING $2 (k)" -c 'VACUUM (ANALYZE) grown' -c CHECKPOINT
	timings "INSERT INTO grown SELECT hashint8extended(i, 7), i FROM generate_series(1::bigint, $probes) i" | note "$1:$2" ms
	sql -c 'DROP TABLE grown'
}

section_insert() {
	local -A plan_name=()
	in_turns insert
	record_case insert 'random keys'
}

start_servers
load
run_sections build queries insert -- "$@"
