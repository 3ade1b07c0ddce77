#!/bin/bash
# Compares indexes under the workloads of sysbench and pgbench, and while clients insert
# single rows, on a private server.  Prints Markdown tables of medians.
#
# usage: bench/clients.sh [SECTION...]
#
#   sysbench pgbench inserts      default: all of them
#
# Environment: ROWS (2000000), RUNS (3), SECONDS_A_RUN (5), and the variables of
# bench/common.sh.  Takes about 1500 bytes of memory and as much disk space for each
# row.
#
#   INSERT_ROWS     rows of each table before clients insert (ROWS / 4)
#   INSERT_CLIENTS  numbers of clients ("1 8 16 32")
#   INSERT_CASES    some of "random ascending sequences timestamps duplicates"; default: all
#   WAITS=1         also print what the backends wait for, by samples of pg_stat_activity
#
# Beside the two indexes, clients insert into a table without an index ("none").  That is no bound: with many clients such
# a table can be slower than one with a btree.
#
# sysbench looks up column k of its table sbtest1, pgbench column aid of
# pgbench_accounts.  For both, each access method has its own database with the same rows;
# its index replaces the original one.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite clients 2000000 3 5
methods=(btree hash harmonia)

# copy_databases NAME TABLE COLUMN DROP: copies database NAME_btree for each other
# method, and in all of them replaces the original index, which the statement DROP
# removes, by one of the method.
copy_databases() {
	local name=$1 table=$2 column=$3 drop=$4 method
	for method in "${methods[@]}"; do
		[ "$method" = btree ] || sql -c "CREATE DATABASE ${name}_$method TEMPLATE ${name}_btree"
	done
	for method in "${methods[@]}"; do
		sql -d "${name}_$method" -c 'CREATE EXTENSION IF NOT EXISTS harmonia' -c "$drop" \
			-c "CREATE INDEX replaced ON $table USING $method ($column)" -c "VACUUM ANALYZE"
	done
}

# check_use DATABASE CLIENT: fails if the index has not been used.
check_use() {
	[ "$(sql -d "$1" -c "SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = 'replaced'")" = t ] ||
		die "the index of $1 was not used by $2"
}

run_sysbench() {
	local database=$1 threads=$2 length=(--time="$seconds_a_run" --events=0)
	shift 2
	[ "$seconds_a_run" -gt 0 ] || length=(--time=0 --events=100)
	sysbench --db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" --pgsql-user="$PGUSER" \
		--pgsql-db="$database" --threads="$threads" --table-size="$rows" --rand-type=uniform "${length[@]}" "$@"
}

# sysbench_row METHODS SCRIPT [OPTION...]: measures with 1 and 4 threads.
sysbench_row() {
	local script=$2 threads run method methods
	read -r -a methods <<<"$1"
	shift 2
	for threads in 1 4; do
		for ((run = 0; run < runs; run++)); do
			for method in "${methods[@]}"; do
				run_sysbench "sysbench_$method" "$threads" "$script" "$@" run |
					sed -n 's/^ *transactions: .*(\([0-9.]*\) per sec.*/\1/p' | note "$method" transactions/s
				check_use "sysbench_$method" "$script"
			done
		done
		record_noted sysbench "$script${*:+ ${*#--}} threads=$threads"
	done
}

section_sysbench() {
	local n
	say "Loading $rows rows by sysbench"
	sql -c 'CREATE DATABASE sysbench_btree'
	run_sysbench sysbench_btree 1 select_random_points prepare
	copy_databases sysbench sbtest1 k 'DROP INDEX k_1'
	for n in 10 100 1000; do
		sysbench_row 'btree hash harmonia' select_random_points "--random-points=$n"
	done
	for n in 10 100; do
		sysbench_row 'btree harmonia' select_random_ranges "--number-of-ranges=$n"
	done
	sysbench_row 'btree hash harmonia' oltp_update_index
}

# pgbench_row CASE OPTION...: measures with 1, 4 and 8 clients.
pgbench_row() {
	local case=$1 clients run method
	shift
	for clients in 1 4 8; do
		for ((run = 0; run < runs; run++)); do
			for method in "${methods[@]}"; do
				sql -d "pgbench_$method" -c 'VACUUM pgbench_branches, pgbench_tellers'
				PGDATABASE=pgbench_$method run_pgbench "$clients" "$@" | note "$method" transactions/s
				check_use "pgbench_$method" pgbench
			done
		done
		record_noted pgbench "$case clients=$clients"
	done
}

section_pgbench() {
	sql -c 'CREATE DATABASE pgbench_btree'
	pgbench -i -q -s $((rows / 100000 > 0 ? rows / 100000 : 1)) pgbench_btree 2>&1 | tail -n 1
	copy_databases pgbench pgbench_accounts aid 'ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey'
	pgbench_row select-only -b select-only
	pgbench_row tpcb-like -b tpcb-like
}

# Keys of single-row inserts: the column's type, the key of row i of those that a table has
# before, and the key that clients insert; :r is random.
declare -A insert_type=(
	[random]=bigint [ascending]=bigint [sequences]=bigint [timestamps]=timestamptz [duplicates]=int)
declare -A insert_first=(
	[random]='hashint8extended(i, 0)'
	[ascending]='i'
	[sequences]="(i % 8) * 1000000000000 + i"
	[timestamps]="clock_timestamp()"
	[duplicates]='i % 100')
declare -A insert_key=(
	[random]='hashint8extended(:r, 1)'
	[ascending]="nextval('ascending')"
	[sequences]="(:r::bigint % 8) * 1000000000000 + nextval('ascending')"
	[timestamps]="clock_timestamp() - interval '1 ms' * (:r::bigint % 100)"
	[duplicates]=':r::bigint % 100')

# define_sampler: a function that returns, many times a second, what each backend that runs a
# statement waits for.
define_sampler() {
	sql <<-'SQL'
		CREATE FUNCTION sample_waits(seconds float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
		DECLARE until timestamptz := clock_timestamp() + interval '1 s' * seconds;
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM pg_stat_clear_snapshot(), pg_sleep(0.01);
				RETURN QUERY SELECT coalesce(wait_event_type || ' ' || wait_event, 'runs') FROM pg_stat_activity
					WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid();
			END LOOP;
		END $$
	SQL
}

# insert_row CASE CLIENTS: measures single-row inserts.
insert_row() {
	local case=$1 clients=$2 run method
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia none; do
			[ -z "${WAITS:-}" ] || sql -c "SELECT sample_waits($seconds_a_run)" >>"$dir/waits.$method" &
			transactions_a_second "$clients" '\set r random(1, 9000000000000000)' \
				"INSERT INTO ${case}_$method VALUES (${insert_key[$case]});" | note "$method" rows/s
			wait
		done
	done
	record_noted "clients that insert: $case" "$clients"
	[ -n "${WAITS:-}" ] || return 0
	for method in btree harmonia none; do
		printf '%s, %s clients, %s: ' "$case" "$clients" "$method"
		sort "$dir/waits.$method" | uniq -c | sort -rn |
			awk '{ n = $1; $1 = ""; printf("%s%s %d", (NR > 1 ? "," : ""), $0, n) } END { print "" }'
		rm "$dir/waits.$method"
	done
}

section_inserts() {
	local case clients method
	local count=${INSERT_ROWS:-$((rows / 4))}
	say "$count rows before"
	[ -z "${WAITS:-}" ] || define_sampler
	sql -c "CREATE SEQUENCE ascending START $((count + 1))"
	for case in ${INSERT_CASES:-random ascending sequences timestamps duplicates}; do
		for method in btree harmonia none; do
			sql -c "CREATE TABLE ${case}_$method (k ${insert_type[$case]})"
			[ "$method" = none ] || sql -c "CREATE INDEX ON ${case}_$method USING $method (k)"
			sql -c "INSERT INTO ${case}_$method SELECT ${insert_first[$case]} FROM generate_series(1::bigint, $count) i" \
				-c "VACUUM ANALYZE ${case}_$method" -c CHECKPOINT
		done
		for clients in ${INSERT_CLIENTS:-1 8 16 32}; do
			insert_row "$case" "$clients"
		done
		sql -c "SELECT harmonia_check('${case}_harmonia_k_idx', true)" >"$dir/checked"
		sql -c "DROP TABLE ${case}_btree, ${case}_harmonia, ${case}_none"
	done
}

sections=("$@")
[ $# -gt 0 ] || sections=(sysbench pgbench inserts)
[[ " ${sections[*]} " != *' sysbench '* ]] || command -v sysbench >/dev/null || "$root/tools/setup.sh" clients
start_server $((rows * 1500 / 1000000 + 256)) -c synchronous_commit=off -c max_parallel_workers_per_gather=0
run_sections sysbench pgbench inserts -- "$@"
