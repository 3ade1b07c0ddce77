#!/bin/bash
# Compares indexes under the workloads of sysbench and pgbench, on a private server.
# Each access method has its own database with the same rows; its index replaces the
# original one.  Prints Markdown tables of medians.
#
# usage: bench/clients.sh [SECTION...]
#
#   sysbench pgbench      default: both
#
# Environment: ROWS (2000000), RUNS (3), SECONDS_A_RUN (5), and the variables of
# bench/common.sh.  Takes about 1500 bytes of memory and as much disk space for each
# row.
#
# sysbench looks up column k of its table sbtest1, pgbench column aid of
# pgbench_accounts.

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

command -v sysbench >/dev/null || "$root/tools/setup.sh" clients
start_server $((rows * 1500 / 1000000 + 256)) -c synchronous_commit=off -c max_parallel_workers_per_gather=0
run_sections sysbench pgbench -- "$@"
