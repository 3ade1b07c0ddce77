#!/bin/bash
# Runs PostgreSQL's own regression tests three times, and compares what they print: with btree indexes, with
# harmonia indexes in their place, and with btrees that lookups search wherever they can.
#
# usage: test/core/run.sh SOURCE [TEST...]
#
# SOURCE is the unpacked source of a PostgreSQL release of the same major version as pg_config's.  TESTS
# are those that are compared (default: those that have much to do with indexes).  All that the schedule
# has are run, one by one, because they make each other's tables.  Takes some minutes.  RUNS names those of the
# runs that are to be compared with btree's (default: harmonia lookups), and BINDIR an installation with harmonia
# (tools/private-install.sh) that is there.
#
# create_index() makes a harmonia index of what a file says to btree, or, if harmonia refuses that, a
# btree index; unique indexes are left alone.  EXPLAIN is left out.  Prints how many indexes each method
# has at the end, how many plans had lookups, and the differences: "<" is what btree says.  Rows may come in another order.  A person
# has to judge the differences; test/README says which are expected.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"

[ $# -ge 1 ] || die "usage: $0 SOURCE [TEST...]"
source_dir=$(realpath "$1")/src/test/regress
shift
[ -f "$source_dir/regress.c" ] || die "there is no source of PostgreSQL in $source_dir"
compared=("$@")
[ $# -gt 0 ] || compared=(create_index index_including btree_index select join aggregates union subselect
	portals uuid text varchar char name bit numeric inet enum macaddr macaddr8 date timestamp timestamptz interval arrays
	rangefuncs cluster limit equivclass indexing partition_join partition_prune partition_aggregate alter_table
	update delete insert_conflict replica_identity incremental_sort memoize tuplesort collate rowsecurity
	updatable_views foreign_key plancache prepare select_distinct groupingsets window with merge transactions vacuum
	generated identity inherit constraints domain rowtypes fast_default create_table_like tablesample matview)

choose_temporary_folder
dir=$(make_private_dir)
trap '"$root/tools/private-server.sh" stop "$dir/server" -m immediate || true; rm -rf "$dir"' EXIT
programs=${BINDIR:-$("$root/tools/private-install.sh" "$dir/install")}
as_server_user mkdir "$dir/server" "$dir/lib" "$dir/btree" "$dir/harmonia" "$dir/lookups"
gcc -O1 -shared -fPIC -I"$(pg_config --includedir-server)" -o "$dir/lib/regress.so" "$source_dir/regress.c"
eval "$("$root/tools/private-server.sh" start "$dir/server" "$programs" -c fsync=off -c shared_preload_libraries=harmonia,auto_explain \
	-c max_prepared_transactions=2)"
export PG_ABS_SRCDIR=$source_dir PG_ABS_BUILDDIR=$dir PG_LIBDIR=$dir/lib PG_DLSUFFIX=.so PGTZ=PST8PDT PGDATESTYLE='Postgres, MDY'

mapfile -t tests < <(sed -n 's/^test: //p' "$source_dir/parallel_schedule" | tr ' ' '\n')
# The settings of a run.
settings() {
	local name
	[ "$1" = harmonia ] || printf 'ALTER DATABASE regression SET harmonia.enable_btree_lookup = %s;' "$([ "$1" = btree ] && echo off || echo on)"
	[ "$1" = lookups ] || return 0
	# Plans with disabled nodes look so expensive that they would be compiled.
	printf 'ALTER DATABASE regression SET jit = off;'
	for name in seqscan indexscan bitmapscan hashjoin mergejoin nestloop; do
		printf 'ALTER DATABASE regression SET enable_%s = off;' "$name"
	done
	printf 'ALTER DATABASE regression SET auto_explain.log_%s;' 'min_duration = 0' 'nested_statements = on'
}

for run in btree ${RUNS:-harmonia lookups}; do
	method=${run/lookups/btree}
	say "Running ${#tests[@]} tests: $run"
	psql -Xqd postgres -c 'SET client_min_messages = warning' -c 'DROP DATABASE IF EXISTS regression' -c 'CREATE DATABASE regression TEMPLATE template0'
	psql -Xqd regression -c "ALTER DATABASE regression SET lc_messages = 'C'" -c "ALTER DATABASE regression SET core.method = '$method'" \
		-c "$(settings "$run")" -c 'CREATE EXTENSION harmonia' -f "$root/test/core/create_index.sql"
	for test in "${tests[@]}"; do
		"$root/test/core/rewrite.pl" <"$source_dir/sql/$test.sql" >"$dir/$test.sql"
		(cd "$dir" && timeout 300 psql -X -a -q -v HIDE_TABLEAM=on -v HIDE_TOAST_COMPRESSION=on -d regression -f "$dir/$test.sql" \
			>"$dir/$run/$test" 2>&1) || warn "$test ended with an error"
		psql -Xqd regression -Atc 'SELECT 1' >"$dir/alive" || die "the server died in $test"
	done
	psql -Xd regression -Atc "SELECT amname || ' ' || count(*) FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE relkind IN ('i', 'I')
		GROUP BY amname ORDER BY amname"
done
say "$(cat "$dir"/server/*.log | grep -c 'Custom Scan (HarmoniaLookup') lookups in btrees"

# What a test has printed, apart from names of methods, the width of columns, and the order of rows.
normalise() {
	sed "s/harmonia/btree/g; s/[-[:space:]]\+/ /g" "$dir/$1/$2" | sort
}

for run in ${RUNS:-harmonia lookups}; do
	different=0
	for test in "${compared[@]}"; do
		[ -f "$dir/btree/$test" ] || continue
		diff <(normalise btree "$test") <(normalise "$run" "$test") >"$dir/diff" || {
			different=$((different + 1))
			printf '%s\n' "--- $run: $test"
			cat "$dir/diff"
		}
	done
	say "$run: ${#compared[@]} tests, of which $different print something else"
done
