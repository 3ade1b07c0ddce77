#!/bin/bash
# Compares foreign joins with PostgreSQL's own plans: probes of a local table are joined with a
# foreign table, and with two foreign partitions, of postgres_fdw.  The other server runs on the
# same machine.  Prints Markdown tables of medians.
#
# usage: bench/foreign.sh [SECTION...]
#
#   fetch default estimates      default: all of them
#
# Environment: ROWS (10000000; each partition has half of them), RUNS (5), OTHER_RUNS (runs of a plan
# that takes longer than a second: 2), CASES (a regular expression; only cases whose name it
# matches), and the variables of bench/common.sh.
#
# "fetch" has a fetch_size of 10000, for all plans; "default" has postgres_fdw's 100; "estimates" has
# 10000 and use_remote_estimate, with which PostgreSQL, too, asks for single keys.  The remote
# tables have a btree and a harmonia index on the key, and the remote server takes what it likes.  Probes are
# keys of random rows.  The small foreign table has 1024 rows, each the match of as many probes.  "harmonia" is what the planner chooses, "best plan" the fastest of what
# PostgreSQL itself can do (find_best_plan in bench/common.sh).  The first execution in a session, which
# connects, does not count.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite foreign 10000000 5 0
wanted=${CASES:-.}
most=$((rows / 10))

# Columns of row i, whose key is random.
columns='hashint8extended(i, 0) AS k, i::int AS v'

load() {
	say "Loading $rows rows"
	use_server remote
	sql -c "CREATE TABLE points AS SELECT $columns FROM generate_series(1::bigint, $rows) i" \
		-c 'CREATE TABLE points_0 AS SELECT * FROM points WHERE k < 0' \
		-c 'CREATE TABLE points_1 AS SELECT * FROM points WHERE k >= 0' \
		-c 'CREATE TABLE small AS SELECT i AS k, i::int AS v FROM generate_series(0::bigint, 1023) i'
	for table in points points_0 points_1 small; do
		sql -c "CREATE INDEX ON $table (k)" -c "CREATE INDEX ON $table USING harmonia (k)" -c "CREATE INDEX ON $table (v)"
	done
	sql -c 'VACUUM (ANALYZE, FREEZE)' -c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(oid) FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace" >"$dir/load"
	server="OPTIONS (host '$PGHOST', port '$PGPORT', dbname '$(sql -c 'SELECT current_database()')')"
	user=$(sql -c 'SELECT current_user')

	use_server main
	sql -c 'CREATE EXTENSION postgres_fdw' -c "CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw $server" \
		-c "CREATE USER MAPPING FOR CURRENT_USER SERVER remote OPTIONS (user '$user')" \
		-c 'CREATE FOREIGN TABLE points (k bigint, v int) SERVER remote' \
		-c 'CREATE FOREIGN TABLE small (k bigint, v int) SERVER remote' \
		-c 'CREATE TABLE parts (k bigint, v int) PARTITION BY RANGE (k)' \
		-c "CREATE FOREIGN TABLE parts_0 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (0)
			SERVER remote OPTIONS (table_name 'points_0')" \
		-c "CREATE FOREIGN TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (MAXVALUE)
			SERVER remote OPTIONS (table_name 'points_1')" \
		-c "CREATE TABLE probes AS
			SELECT i::int AS p, hashint8extended(1 + (hashint8extended(i, 1) & 4611686018427387903) % $rows, 0) AS k,
				hashint8extended(i, 2) & 1023 AS small_k,
				CASE WHEN i % 100 = 0 THEN hashint8extended(1 + (hashint8extended(i, 1) & 4611686018427387903) % $rows, 0)
					ELSE hashint8extended(i, 5) END AS rare
			FROM generate_series(1::bigint, $most) i" \
		-c 'CREATE INDEX ON probes (p)' -c 'VACUUM (ANALYZE, FREEZE) probes' \
		-c 'ANALYZE points' -c 'ANALYZE parts' -c 'ANALYZE small'
}

# cases: prints a line for each case: its name, a tab, the query.
cases() {
	local table what probes share
	for table in parts points; do
		what='two foreign partitions'
		[ "$table" = parts ] || what='a foreign table'
		while IFS=$'\t' read -r share probes; do
			name_case "$share in $what: sum(v)" "SELECT sum(v) FROM probes JOIN $table USING (k) WHERE p <= $probes"
		done <<-END
			1 probe	1
			2 probes	2
			3 probes	3
			10 probes	10
			100 probes	100
			probes for 0.01 %	$((most / 1000))
			probes for 0.1 %	$((most / 100))
			probes for 1 %	$((most / 10))
			probes for 10 %	$most
		END
		share="probes for 1 % in $what"
		probes="p <= $((most / 10))"
		name_case "$share: left join" "SELECT sum(p), sum(v) FROM probes LEFT JOIN $table ON $table.k = rare WHERE $probes"
		name_case "$share: EXISTS" "SELECT sum(p) FROM probes WHERE $probes AND EXISTS (SELECT FROM $table WHERE $table.k = rare)"
		name_case "$share: NOT EXISTS" \
			"SELECT sum(p) FROM probes WHERE $probes AND NOT EXISTS (SELECT FROM $table WHERE $table.k = rare)"
		name_case "probes for 1 % in 10 rows of $what: sum(v)" "SELECT sum(v) FROM probes JOIN $table USING (k) WHERE $probes AND v <= 10"
	done
	for probes in 1 10 1000 "$most"; do
		name_case "$probes probes in a small foreign table: sum(v)" "SELECT sum(v) FROM probes JOIN small ON small.k = small_k WHERE p <= $probes"
	done
}

# name_case NAME QUERY: prints the line, if the case is wanted.
name_case() {
	[[ ! $1 =~ $wanted ]] || printf '%s\t%s\n' "$1" "$(tr -s '\n\t' ' ' <<<"$2")"
}

# section_of SECTION SIZE: measures all cases with this fetch_size.
section_of() {
	local case query
	options=
	sql -c "ALTER SERVER remote OPTIONS ($(sql -c "SELECT CASE WHEN srvoptions::text LIKE '%fetch_size%' THEN 'SET' ELSE 'ADD' END
		FROM pg_foreign_server") fetch_size '$2')"
	cases >"$dir/cases"
	while IFS=$'\t' read -r case query; do
		beside_best "$1" "$case" "$query"
	done <"$dir/cases"
	record_worst "$1"
}

section_fetch() {
	section_of 'fetch_size 10000' 10000
}

section_default() {
	section_of 'fetch_size 100' 100
}

section_estimates() {
	sql -c "ALTER SERVER remote OPTIONS (ADD use_remote_estimate 'true')"
	section_of 'fetch_size 10000 and remote estimates' 10000
	sql -c 'ALTER SERVER remote OPTIONS (DROP use_remote_estimate)'
}

start_server 512 -c max_parallel_workers_per_gather=0 -c shared_preload_libraries=harmonia
add_server remote "$(dirname "$(command -v postgres)")" $((rows * 220 / 1000000 + 256)) -c max_parallel_workers_per_gather=0
load
run_sections fetch default estimates -- "$@"
print_targets
