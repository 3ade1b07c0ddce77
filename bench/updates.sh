#!/bin/bash
# Compares a harmonia index with btree and hash indexes under changes, on a private
# server: mixes of inserts, deletes and look-ups; single-row inserters; statements that change
# many rows; size and look-up time after churn, before and after movement; and how long inserts
# wait for movements.  Prints Markdown tables, and which targets are reached.
#
# usage: bench/updates.sh [SECTION...]
#
#   mixes inserters statements churn waits      default: all of them
#
# Environment: ROWS (20000000), RUNS (3), SECONDS_A_RUN (10), WAIT_SECONDS (30), and the
# variables of bench/common.sh.  Takes about 400 bytes of memory and as much disk space
# for each row.
#
# Each index has its own table with the same rows, in shared buffers; fsync is off.
# Tables are measured in turn, under the same settings.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite updates 20000000 3 10
wait_seconds=${WAIT_SECONDS:-30}
methods=(btree hash harmonia)

# load METHOD...: makes a table for each access method, named after it.
load() {
	local method
	for method in "${methods[@]}"; do
		sql -c "DROP TABLE IF EXISTS t_$method"
	done
	for method in "$@"; do
		sql -c "CREATE TABLE t_$method AS
				SELECT hashint8extended(i, 0) AS k, i AS id FROM generate_series(1::bigint, $rows) i" \
			-c "CREATE INDEX i_$method ON t_$method USING $method (k)" \
			-c "VACUUM ANALYZE t_$method"
	done
}

section_mixes() {
	local percent method round=0 run
	load "${methods[@]}"
	for percent in 5 20 50 80 95; do
		for ((run = 0; run < runs; run++)); do
			round=$((round + 1))
			for method in "${methods[@]}"; do
				mix_round "t_$method" "$rows" "$percent" "$round" | note "$method" rows/s
			done
		done
		record_noted 'mixes by per cent of changes' "$percent"
	done
}

# inserter_row KEYS KEY CLIENTS: measures single-row inserts.
inserter_row() {
	local keys=$1 key=$2 clients=$3 method run
	for ((run = 0; run < runs; run++)); do
		for method in "${methods[@]}"; do
			transactions_a_second "$clients" '\set i random(1, 9000000000000000)' \
				"INSERT INTO t_$method VALUES ($key, :i);" | note "$method" rows/s
		done
	done
	record_noted "clients that insert $keys keys" "$clients"
}

section_inserters() {
	local clients
	load "${methods[@]}"
	sql -c 'CREATE SEQUENCE ascending'
	for clients in 1 2 4 8; do
		inserter_row random 'hashint8extended(:i, 0)' "$clients"
	done
	for clients in 1 2 4 8; do
		inserter_row ascending "nextval('ascending') + 2^62::bigint" "$clients"
	done
}

# in_ms COMMAND...: runs a command for each part of 1 to 4, at the same time, with the part as last argument.
# Prints the milliseconds until all have ended.
in_ms() {
	local part from=${EPOCHREALTIME/./} pids=()
	for part in 1 2 3 4; do
		"$@" "$part" &
		pids+=($!)
	done
	for part in "${pids[@]}"; do
		wait "$part"
	done
	echo $(((${EPOCHREALTIME/./} - from) / 1000))
}

copy_part() {
	sql -c "COPY t_$1 FROM '$dir/copy.$2'"
}

# rows_a_second ROWS: makes that of the milliseconds on each line of the input.
rows_a_second() {
	awk -v n="$1" '{ print n / $1 * 1000 }'
}

# Random keys, with default settings.
section_statements() {
	local method run part count=$((rows / 40))
	local methods=(btree harmonia)
	load "${methods[@]}"
	for ((run = 0; run < runs; run++)); do
		for part in 1 2 3 4; do
			sql -c "COPY (SELECT hashint8extended(i, 0), i FROM generate_series($rows + ($run * 4 + $part) * $count::bigint + 1,
				$rows + ($run * 4 + $part + 1) * $count::bigint) i) TO '$dir/copy.$part'"
		done
		for method in "${methods[@]}"; do
			in_ms copy_part "$method" | rows_a_second $((4 * count)) | note "$method" rows/s
		done
		rm "$dir"/copy.?
	done
	record_noted 'statements of many rows' 'COPY by 4 clients'

	for ((run = 0; run < runs; run++)); do
		sql -c 'DROP TABLE IF EXISTS new_keys' \
			-c "CREATE TABLE new_keys AS SELECT i AS id, hashint8extended(i, $run + 1) AS k
				FROM generate_series($run * $count::bigint + 1, ($run + 1) * $count::bigint) i" -c 'VACUUM ANALYZE new_keys'
		for method in "${methods[@]}"; do
			timings "UPDATE t_$method t SET k = n.k FROM new_keys n WHERE t.id = n.id" |
				rows_a_second "$count" | note "$method" rows/s
		done
	done
	record_noted 'statements of many rows' 'UPDATE by a join'

	# It finds its rows by the index that it changes, one by one.
	count=$((rows / 400))
	for method in "${methods[@]}"; do
		sql -c "VACUUM ANALYZE t_$method"
	done
	for ((run = 0; run < runs; run++)); do
		sql -c 'DROP TABLE IF EXISTS new_keys' \
			-c "CREATE TABLE new_keys AS SELECT hashint8extended(i, 0) AS old, hashint8extended(i, $run + 1) AS k
				FROM generate_series(($rows - ($run + 1) * $count)::bigint + 1, ($rows - $run * $count)::bigint) i" \
			-c 'VACUUM ANALYZE new_keys'
		for method in "${methods[@]}"; do
			timings 'SET enable_hashjoin = off' 'SET enable_mergejoin = off' \
				"UPDATE t_$method t SET k = n.k FROM new_keys n WHERE t.k = n.old" | tail -n 1 |
				rows_a_second "$count" | note "$method" rows/s
		done
	done
	record_noted 'statements of many rows' 'UPDATE by a join on the key'
}

# churn_row CASE: records the size of each index, also relative to a packed one, and its
# look-up time.
churn_row() {
	local case=$1 method packed size run
	for method in "${methods[@]}"; do
		size=$(sql -c "SELECT pg_relation_size('i_$method')")
		for ((run = 0; run < runs; run++)); do
			timings 'SET enable_hashjoin = off' 'SET enable_mergejoin = off' 'SET enable_memoize = off' \
				'SET harmonia.enable_lookup_join = off' \
				"SELECT count(*) FROM (SELECT k FROM t_$method TABLESAMPLE SYSTEM (1) REPEATABLE (1) OFFSET 0) s
				JOIN t_$method USING (k)" | tail -n 1 | note "$method" 'ms of look-ups'
		done
		sql -c 'DROP INDEX IF EXISTS packed' -c "CREATE INDEX packed ON t_$method USING $method (k)"
		packed=$(sql -c "SELECT pg_relation_size('packed')")
		sql -c 'DROP INDEX packed'
		awk -v size="$size" 'BEGIN { print size / 1e6 }' | note "$method" MB
		awk -v size="$size" -v packed="$packed" 'BEGIN { print size / packed }' | note "$method" 'times packed'
	done
	record_noted churn "$case"
}

# Moves everything that could be packed better; for btree, does REINDEX.
restore() {
	sql -c "SELECT harmonia_reorganize('i_harmonia')" -c 'REINDEX INDEX i_btree' >>"$dir/restore"
}

section_churn() {
	local method i
	local methods=(btree harmonia)
	load "${methods[@]}"
	for method in "${methods[@]}"; do
		for ((i = 0; i < 5; i++)); do
			sql -c "INSERT INTO t_$method SELECT hashint8extended(i, 0), i
				FROM generate_series($rows * (20 + $i) / 20 + 1::bigint, $rows * (21 + $i) / 20) i"
		done
		sql -c "VACUUM t_$method"
	done
	churn_row 'a quarter of random keys added'
	restore
	churn_row 'movement or REINDEX after that'
	for method in "${methods[@]}"; do
		sql -c "DELETE FROM t_$method WHERE hashint8extended(id, 7) % 10 <> 0" -c "VACUUM t_$method"
	done
	churn_row 'nine tenths deleted'
	restore
	churn_row 'movement or REINDEX after these'
	for method in "${methods[@]}"; do
		sql -c "TRUNCATE t_$method"
		sql -c "INSERT INTO t_$method SELECT i, i FROM generate_series(1::bigint, $rows / 20) i"
		for ((i = 1; i <= 20; i++)); do
			sql -c "INSERT INTO t_$method SELECT i, i FROM generate_series($rows / 20 * $i + 1::bigint, $rows / 20 * ($i + 1)) i" \
				-c "DELETE FROM t_$method WHERE k <= $rows / 20 * $i::bigint" -c "VACUUM t_$method"
		done
	done
	churn_row 'a window sliding over ascending keys'
}

# in_parts STATEMENT: runs a statement for parts of a series at the same time.  FROM and TO stand for a
# part's ends; the series goes from $1 to $2.
in_parts() {
	local from=$1 to=$2 statement=$3 parts i part pids=()
	parts=$(($(nproc) < 8 ? $(nproc) : 8))
	for ((i = 0; i < parts; i++)); do
		part=${statement//FROM_ROW/$((from + (to - from + 1) * i / parts))::bigint}
		sql -c "${part//TO_ROW/$((from + (to - from + 1) * (i + 1) / parts - 1))::bigint}" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
}

# load_waits METHOD: like load, by several sessions.  Then so many rows are added that leaves are split.
load_waits() {
	local method=$1 insert
	insert="INSERT INTO t_$method SELECT hashint8extended(i, 0), i FROM generate_series(FROM_ROW, TO_ROW) i"
	sql -c "CREATE TABLE t_$method (k bigint, id bigint)"
	in_parts 1 "$rows" "$insert"
	sql -c "SET max_parallel_maintenance_workers = 8" -c "CREATE INDEX i_$method ON t_$method USING $method (k)"
	in_parts $((rows + 1)) $((rows + rows / 8)) "$insert"
	sql -c "VACUUM ANALYZE t_$method"
}

# start_inserters METHOD: four clients insert single rows with random keys; pgbench logs the time of each.
start_inserters() {
	printf '%s\n' '\set i random(1, 9000000000000000)' \
		"INSERT INTO t_$1 VALUES (hashint8extended(:i, 0), :i);" >"$dir/script"
	rm -f "$dir"/latency.*
	(cd "$dir" && exec pgbench -n -M prepared -c 4 -j 4 -T 3600 -l --log-prefix="$dir/latency" -f "$dir/script" \
		>"$dir/pgbench" 2>&1) &
	inserters=$!
	sleep 1
}

# stop_inserters METHOD CASE FROM TO: records how long inserts took that were under way between two times, in seconds.
stop_inserters() {
	local method=$1 case=$2 from=$3 to=$4 bound
	sleep 0.2
	kill "$inserters"
	wait "$inserters" || true
	# Client, transaction, microseconds, script, and the end as seconds and microseconds
	cat "$dir"/latency.* | awk -v from="$from" -v to="$to" 'NF == 6 {
			end = $5 + $6 / 1e6
			if (end >= from && end - $3 / 1e6 <= to)
				print $3 / 1000
		}' | sort -g >"$dir/times"
	[ -s "$dir/times" ] || die "no inserts $case"
	for bound in 1 2 5 10 20 50 100; do
		awk -v bound="$bound" '$1 > bound { n++ } END { print n / NR * 1e6 }' "$dir/times" >"$dir/share"
		record "inserts longer than so many ms; $case" "$bound" "$method" "$(cat "$dir/share")" 'of a million' 1 \
			"$(wc -l <"$dir/times") inserts"
	done
	record 'median insert' "$case" "$method" "$(awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }' "$dir/times")" ms 1
	record 'insert at 99.99 per cent' "$case" "$method" \
		"$(awk '{ t[NR] = $1 } END { print t[int(NR * 0.9999 + 0.999)] }' "$dir/times")" ms 1
	record 'longest insert' "$case" "$method" "$(tail -n 1 "$dir/times")" ms 1
}

# beside METHOD CASE COMMAND...: runs a command while the clients insert.
beside() {
	local method=$1 case=$2 from
	shift 2
	start_inserters "$method"
	from=$(date +%s.%N)
	"$@" >"$dir/beside"
	stop_inserters "$method" "$case" "$from" "$(date +%s.%N)"
}

# Four clients insert single rows: alone, while everything is moved, and while VACUUM removes three quarters
# of an eighth of the keys, so that segments are moved as well.
section_waits() {
	local method moved
	load # removes the tables
	for method in btree harmonia; do
		load_waits "$method"
	done
	for method in btree harmonia; do
		beside "$method" 'without movement' sleep "$wait_seconds"
	done
	beside harmonia 'while segments are moved' sql -c "SELECT harmonia_reorganize('i_harmonia')"
	say "harmonia_reorganize() moved $(cat "$dir/beside") segments"
	for method in btree harmonia; do
		sql -c "DELETE FROM t_$method WHERE k BETWEEN 0 AND (2^61)::bigint AND id % 4 <> 0"
		moved=$(sql -c "SELECT movements FROM harmonia_index_info('i_harmonia')")
		beside "$method" 'beside VACUUM' sql -c "VACUUM (INDEX_CLEANUP on) t_$method"
	done
	say "VACUUM moved $(($(sql -c "SELECT movements FROM harmonia_index_info('i_harmonia')") - moved)) segments"
}

start_server $((rows * 450 / 1000000 + 256)) \
	-c work_mem=256MB -c synchronous_commit=off -c max_parallel_workers_per_gather=0
run_sections mixes inserters statements churn waits -- "$@"
print_targets
