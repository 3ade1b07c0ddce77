#!/bin/bash
# Measures queries with many keys on distributed tables of Citus, with our nodes and without: a
# coordinator and two workers, all private servers of this machine.  Prints Markdown tables of medians.
#
# usage: bench/citus.sh [SECTION...]
#
#   default tuned      costs of the workers: PostgreSQL's own, or random_page_cost = 1.1; default: both
#
# Environment: ROWS (20000000), PROBES (ROWS / 100), SHARDS (8), RUNS (5), and the variables of bench/common.sh.
# The PostgreSQL must have Citus.  Takes about 200 bytes of memory and disk space for each row.
#
# Tables are distributed by k, a random bigint, with a btree and a harmonia index; probes are keys of random
# rows.  Column other is random, too.  "harmonia" is what the workers' planners choose, "PostgreSQL" the same
# without our nodes.  The first execution in a session, which connects, does not count.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite citus 20000000 5 0
probes=${PROBES:-$((rows / 100))}
shards=${SHARDS:-8}
workers=(worker_1 worker_2)

start_cluster() {
	local programs node settings=(-c 'shared_preload_libraries=citus,harmonia' -c max_parallel_workers_per_gather=0
		-c citus.shard_count="$shards" -c citus.node_conninfo=sslmode=prefer -c work_mem=64MB)
	start_server 128 "${settings[@]}"
	programs=$(dirname "$(command -v postgres)")
	[ -e "$("$programs/pg_config" --sharedir)/extension/citus.control" ] || die "there is no Citus for $PG_CONFIG"
	for node in "${workers[@]}"; do
		add_server "$node" "$programs" $((rows * 80 / 1000000 + 256)) "${settings[@]}"
	done
	for node in main "${workers[@]}"; do
		use_server "$node"
		sql -c 'CREATE EXTENSION citus'
	done
	use_server main
	sql -c "SELECT citus_set_coordinator_host('$dir/main', 5432)" >"$dir/added"
	for node in "${workers[@]}"; do
		sql -c "SELECT citus_add_node('$dir/$node', 5432)" >"$dir/added"
	done
}

# on_workers STATEMENT...: executes these on each worker, and has its server take the new settings.
on_workers() {
	local node statement arguments
	for node in "${workers[@]}"; do
		use_server "$node"
		arguments=()
		for statement in "$@" 'SELECT pg_reload_conf()'; do
			arguments+=(-c "$statement")
		done
		sql "${arguments[@]}" >"$dir/reloaded"
	done
	use_server main
}

load() {
	say "Loading $rows rows and $probes probes"
	sql -c 'CREATE TABLE points (k bigint, other int, v int)' -c 'CREATE TABLE probes (k bigint, other int, p int)' \
		-c "SELECT create_distributed_table('points', 'k')" \
		-c "SELECT create_distributed_table('probes', 'k', colocate_with => 'points')" \
		-c "INSERT INTO points SELECT hashint8extended(i, 0), hashint8extended(i, 1)::bit(32)::int, i
			FROM generate_series(1::bigint, $rows) i" \
		-c "INSERT INTO probes SELECT hashint8extended(row, 0), hashint8extended(row, 1)::bit(32)::int, i
			FROM (SELECT i, 1 + (hashint8extended(i, 2) & 4611686018427387903) % $rows AS row
				FROM generate_series(1::bigint, $probes) i) r" \
		-c 'CREATE INDEX ON points (k)' -c 'CREATE INDEX ON points USING harmonia (k)' \
		-c 'CREATE INDEX ON points (other)' -c 'CREATE INDEX ON points USING harmonia (other)' \
		-c 'VACUUM (FREEZE, ANALYZE) points, probes' >"$dir/load"
}

# plan: prints the node of ours, or the uppermost join or scan, of one shard.
plan() {
	sql -c "EXPLAIN (COSTS OFF) $1" | grep -o 'Custom Scan (Harmonia[A-Za-z]*)\|Hash [A-Za-z ]*Join\|Hash Join\|Nested Loop[A-Za-z ]*\|Merge Join\|Index Scan\|Index Only Scan\|Bitmap Heap Scan\|Seq Scan' |
		grep -v 'HarmoniaLookupAggregate' | head -n 1
}

# measure SECTION CASE QUERY
measure() {
	local run system value expected unit count spread
	local -A plans=()
	for ((run = 0; run < runs; run++)); do
		for system in harmonia PostgreSQL; do
			value=on
			[ "$system" = harmonia ] || value=off
			on_workers "ALTER SYSTEM SET harmonia.enable_lookup_scan = $value" "ALTER SYSTEM SET harmonia.enable_lookup_join = $value" \
				"ALTER SYSTEM SET harmonia.enable_lookup_aggregate = $value"
			plans[$system]=$(plan "$3")
			run_in_turn "$system" "$3" 3
		done
	done
	summary spread >"$dir/medians"
	while IFS=$'\t' read -r system unit value count spread; do
		record "$1" "$2" "$system" "$value" "$unit" "$count" "$spread; ${plans[$system]}"
	done <"$dir/medians"
}

# section_of NAME COST
section_of() {
	local keys others
	# The servers are started with another one, which goes before their configuration.
	on_workers 'SET citus.enable_ddl_propagation = off' "ALTER DATABASE postgres SET random_page_cost = $2"
	keys=$(sql -c 'SELECT array_agg(k) FROM (SELECT k FROM probes ORDER BY p LIMIT 5000) p')
	others=$(sql -c 'SELECT array_agg(other) FROM (SELECT other FROM probes ORDER BY p LIMIT 1000) p')
	measure "$1" 'join of shards: sum(v)' 'SELECT sum(v) FROM probes JOIN points USING (k)'
	measure "$1" 'left join of shards' 'SELECT sum(p), sum(v) FROM probes LEFT JOIN points USING (k)'
	measure "$1" 'EXISTS' 'SELECT sum(p) FROM probes WHERE EXISTS (SELECT FROM points WHERE points.k = probes.k)'
	measure "$1" '1000 keys of another column in = ANY' "SELECT sum(v) FROM points WHERE other = ANY ('$others')"
	measure "$1" '5000 keys in = ANY' "SELECT sum(v) FROM points WHERE k = ANY ('$keys')"
}

section_default() { section_of 'costs of PostgreSQL' 4; }
section_tuned() { section_of 'random_page_cost = 1.1' 1.1; }

start_cluster
load
run_sections default tuned -- "$@"
