#!/bin/bash
# Compares a harmonia index with btree under changes, on a private server: mixes of
# inserts, deletes and look-ups, single-row inserters, size and look-up time after churn,
# before and after movement, and how long an insert waits for a movement.  Prints
# Markdown tables.
#
# usage: bench/updates.sh [SECTION...]
#
#   mixes inserters churn waits      all of them if none is named
#
# ROWS (20000000), RUNS (3) and SECONDS_A_RUN (10) may be set.  Takes some 300 bytes of
# memory a row and as much disk space.
#
# Each index has a table of its own with the same rows, in shared buffers, fsync
# off.  Tables are measured in turn, under the same settings.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

rows=${ROWS:-20000000}
runs=${RUNS:-3}
seconds_a_run=${SECONDS_A_RUN:-10}
batch=$((rows / 100))
methods=(btree harmonia)

milliseconds() {
	local statements=() statement
	for statement in "$@"; do
		statements+=(-c "$statement")
	done
	sql -c '\timing on' "${statements[@]}" | awk '/^Time:/ { s += $2 } END { print s }'
}

# Tables of their own, called by their indexes' access method.
load() {
	local method
	for method in "${methods[@]}"; do
		sql -c "DROP TABLE IF EXISTS t_$method" \
			-c "CREATE TABLE t_$method AS
				SELECT hashint8extended(i, 0) AS k, i AS id FROM generate_series(1::bigint, $rows) i" \
			-c "CREATE INDEX i_$method ON t_$method USING $method (k)" \
			-c "VACUUM ANALYZE t_$method"
	done
}

# A round of a mix: of a batch of operations, so many in a hundred are half inserts, half
# deletes, the rest look-ups.  Keys are random.
mix_round() {
	local method=$1 percent=$2 round=$3
	local changes=$((batch * percent / 200)) lookups=$((batch * (100 - percent) / 100))
	local base=$((rows + round * batch))
	milliseconds \
		"INSERT INTO t_$method SELECT hashint8extended(i, 0), i FROM generate_series($base + 1::bigint, $base + $changes) i" \
		"DELETE FROM t_$method USING (SELECT hashint8extended($round * $batch + j, 0) AS key
			FROM generate_series(1::bigint, $changes) j OFFSET 0) d WHERE k = d.key" \
		"VACUUM t_$method" \
		"SELECT sum(id) FROM (SELECT hashint8extended(($round * 7919::bigint + j * 104729) % $rows, 0) AS key
			FROM generate_series(1::bigint, $lookups) j OFFSET 0) d JOIN t_$method ON k = d.key"
}

section_mixes() {
	local percent method round=0 run
	load
	printf '| changes, %% | btree, rows/s | harmonia, rows/s | harmonia / btree |\n| --- | --- | --- | --- |\n' >>"$dir/table"
	for percent in 5 20 50 80; do
		for ((run = 0; run < runs; run++)); do
			round=$((round + 1))
			for method in "${methods[@]}"; do
				mix_round "$method" "$percent" "$round" >>"$dir/$method.ms"
			done
		done
		awk -v p="$percent" -v n="$batch" -v b="$(median <"$dir/btree.ms")" -v h="$(median <"$dir/harmonia.ms")" \
			'BEGIN { printf "| %d | %.4g | %.4g | %.2f |\n", p, n / b * 1000, n / h * 1000, b / h }' | tee -a "$dir/table"
		rm "$dir"/*.ms
	done
	echo >>"$dir/table"
}

# inserters NAME KEY: single-row inserts by clients, rows a second.
inserters() {
	local name=$1 key=$2 clients=$3 method run
	for ((run = 0; run < runs; run++)); do
		for method in "${methods[@]}"; do
			printf '%s\n' '\set i random(1, 9000000000000000)' "INSERT INTO t_$method VALUES ($key, :i);" >"$dir/script"
			pgbench -n -M prepared -c "$clients" -j 2 -T "$seconds_a_run" -f "$dir/script" |
				sed -n 's/^tps = \([0-9.]*\) .*/\1/p' >>"$dir/$method.tps"
		done
	done
	awk -v name="$name" -v c="$clients" -v b="$(median <"$dir/btree.tps")" -v h="$(median <"$dir/harmonia.tps")" \
		'BEGIN { printf "| %s | %d | %.4g | %.4g | %.2f |\n", name, c, b, h, h / b }' | tee -a "$dir/table"
	rm "$dir"/*.tps
}

section_inserters() {
	load
	sql -c 'CREATE SEQUENCE ascending'
	printf '| single-row inserts | clients | btree, rows/s | harmonia, rows/s | harmonia / btree |\n| --- | --- | --- | --- | --- |\n' >>"$dir/table"
	inserters 'random keys' 'hashint8extended(:i, 0)' 1
	inserters 'random keys' 'hashint8extended(:i, 0)' 8
	inserters 'ascending keys' "nextval('ascending') + 2^62::bigint" 8
	echo >>"$dir/table"
}

# What an index is like: size beside a packed one, and milliseconds for look-ups.
churn_row() {
	local name=$1 method packed lookup size
	for method in "${methods[@]}"; do
		size=$(sql -c "SELECT pg_relation_size('i_$method')")
		lookup=$(for ((run = 0; run < runs; run++)); do
			sql -c 'SET enable_hashjoin = off' -c 'SET enable_mergejoin = off' -c 'SET enable_memoize = off' \
				-c 'SET harmonia.enable_lookup_join = off' -c '\timing on' \
				-c "SELECT count(*) FROM (SELECT k FROM t_$method TABLESAMPLE SYSTEM (1) REPEATABLE (1) OFFSET 0) s JOIN t_$method USING (k)" |
				sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
		done | median)
		sql -c "DROP INDEX IF EXISTS packed" -c "CREATE INDEX packed ON t_$method USING $method (k)"
		packed=$(sql -c "SELECT pg_relation_size('packed')")
		sql -c 'DROP INDEX packed'
		awk -v name="$name" -v method="$method" -v s="$size" -v p="$packed" -v l="$lookup" \
			'BEGIN { printf "| %s | %s | %.4g | %.2f | %.4g |\n", name, method, s / 1e6, s / p, l }' | tee -a "$dir/table"
	done
}

# After movement of all that could be packed better, and REINDEX for btree.
restore() {
	sql -c "SELECT harmonia_reorganize('i_harmonia')" -c 'REINDEX INDEX i_btree' >>"$dir/restore"
}

section_churn() {
	local method i
	load
	printf '| after | index | MB | times packed | look-ups, ms |\n| --- | --- | --- | --- | --- |\n' >>"$dir/table"
	for method in "${methods[@]}"; do
		for ((i = 0; i < 5; i++)); do
			sql -c "INSERT INTO t_$method SELECT hashint8extended(i, 0), i
				FROM generate_series($rows * (20 + $i) / 20 + 1::bigint, $rows * (21 + $i) / 20) i"
		done
		sql -c "VACUUM t_$method"
	done
	churn_row 'a quarter of random keys added'
	restore
	churn_row 'movement / REINDEX'
	for method in "${methods[@]}"; do
		sql -c "DELETE FROM t_$method WHERE hashint8extended(id, 7) % 10 <> 0" -c "VACUUM t_$method"
	done
	churn_row 'nine tenths deleted'
	restore
	churn_row 'movement / REINDEX'
	for method in "${methods[@]}"; do
		sql -c "TRUNCATE t_$method"
		sql -c "INSERT INTO t_$method SELECT i, i FROM generate_series(1::bigint, $rows / 20) i"
		for ((i = 1; i <= 20; i++)); do
			sql -c "INSERT INTO t_$method SELECT i, i FROM generate_series($rows / 20 * $i + 1::bigint, $rows / 20 * ($i + 1)) i" \
				-c "DELETE FROM t_$method WHERE k <= $rows / 20 * $i::bigint" -c "VACUUM t_$method"
		done
	done
	churn_row 'a window sliding over ascending keys'
	echo >>"$dir/table"
}

# Clients insert single rows while everything is moved; pgbench logs each one's time.
section_waits() {
	local before after
	load
	sql -c "INSERT INTO t_harmonia SELECT hashint8extended(i, 0), i FROM generate_series($rows + 1::bigint, $rows + $rows / 8) i"
	printf '%s\n' '\set i random(1, 9000000000000000)' "INSERT INTO t_harmonia VALUES (hashint8extended(:i, 0), :i);" >"$dir/script"
	(cd "$dir" && pgbench -n -M prepared -c 2 -j 1 -T 60 -l --log-prefix="$dir/latency" -f "$dir/script" >"$dir/pgbench" &&
		touch "$dir/inserted") &
	sleep 5
	before=$(date +%s)
	sql -c "SELECT harmonia_reorganize('i_harmonia')" >"$dir/moved"
	after=$(date +%s)
	wait
	printf '| longest insert, ms | without movement | while segments are moved |\n| --- | --- | --- |\n' >>"$dir/table"
	cat "$dir"/latency.* | awk -v before="$before" -v after="$after" -v moved="$(cat "$dir/moved")" '
		{ t = $5; if (t >= before && t <= after) { if ($3 > during) during = $3 } else if ($3 > other) other = $3 }
		END { printf "| %d segments, %d s | %.4g | %.4g |\n", moved, after - before, other / 1000, during / 1000 }' |
		tee -a "$dir/table"
}

start_server $((rows * 350 / 1000000 + 256)) \
	-c work_mem=256MB -c synchronous_commit=off -c max_parallel_workers_per_gather=0

sections=("$@")
[ $# -gt 0 ] || sections=(mixes inserters churn waits)
for section in "${sections[@]}"; do
	say "Section $section"
	"section_$section"
done

say "$(sql -c 'SELECT version()'), $(nproc) processors, $rows rows, medians of $runs runs"
cat "$dir/table"
