#!/bin/bash
# Loads pgbench's tables into a private server, runs pgbench against them, and
# asks questions that bring many keys: with no index, with btree, with harmonia.
#
# usage: tools/demo.sh
#
# SCALE sets pgbench's scale; without it, memory decides.  CLIENTS and SECONDS_A_RUN
# set the pgbench runs.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

clients=${CLIENTS:-4}
seconds_a_run=${SECONDS_A_RUN:-10}

clean_up() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	"$root/tools/private-server.sh" stop "$dir" -m immediate || true
	rm -rf "$dir"
	exit "$status"
}

# All of pgbench_accounts and its indexes should fit into a quarter of memory: at
# scale 1 they take some 20 MB.
pick_scale() {
	awk '/^MemTotal/ {
		scale = int($2 / 1024 / 4 / 20)
		print (scale < 1 ? 1 : scale > 50 ? 50 : scale)
	}' /proc/meminfo
}

run_pgbench() {
	pgbench -n -c "$clients" -j "$(nproc)" -T "$seconds_a_run" |
		grep -E '^(number of transactions actually|number of failed|tps)'
}

check_environment
"$root/tools/setup.sh" build run
find_pg_config
scale=${SCALE:-$(pick_scale)}

dir=$(make_private_dir)
trap clean_up EXIT
trap 'exit 130' INT TERM

say "Building and installing into $dir"
private_bindir=$("$root/tools/private-install.sh" "$dir/install")
settings=$("$root/tools/private-server.sh" start "$dir" "$private_bindir" \
	-c shared_buffers=$((scale * 20 + 128))MB -c max_wal_size=4GB \
	-c maintenance_work_mem=256MB -c random_page_cost=1.1 -c jit=off)
eval "$settings"

say "pgbench -i -s $scale"
pgbench -i -q -s "$scale" 2>&1 | tail -n 1

say "pgbench with the primary key's btree alone"
run_pgbench

say "CREATE INDEX demo_harmonia ON pgbench_accounts USING harmonia (aid)"
psql -X -q -v ON_ERROR_STOP=1 \
	-c 'CREATE EXTENSION harmonia' \
	-c 'CREATE INDEX demo_harmonia ON pgbench_accounts USING harmonia (aid)'

say "pgbench with the harmonia index beside the primary key"
run_pgbench

say "Questions, with each index alone"
psql -X -q -v ON_ERROR_STOP=1 -f "$root/tools/demo.sql"
