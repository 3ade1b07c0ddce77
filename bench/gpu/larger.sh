#!/bin/bash
# Measures lookups in an index that is twice as large as the device's memory for copies: the other half
# of the copy is in the machine's memory.  On a private server.  Prints Markdown tables.
#
# usage: bench/gpu/larger.sh [SECTION...]
#
#   uniform    keys drawn at random
#   zipf       exponent 1, hot keys all over the range
#   recent     exponent 1, hot keys at one end of the range, as where new ids are asked for most
#
#   default: all
#
# Environment: ROWS (67108864, 2^26), SECONDS_A_RUN (4), RUNS (1), DEVICE (on; host tries the script
# without a GPU), and the variables of bench/common.sh.  Takes about 300 bytes of memory and as much disk
# space for each row.
#
#   KEYS       keys of a batch (1000000)
#   CLIENTS    numbers of clients ("1 4")
#   WARM_UP    seconds of batches before each section, in which the copy is made (10)
#   SHARE      the device's memory for copies, in percent of the index (50)
#
# "CPU" has all batches on the CPU, "machine's memory" the choice.  "times the CPU" are the quotients,
# "keys on the device" the share of keys that went there.  All data is in shared buffers.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

start_suite larger 67108864 1 4
keys=${KEYS:-1000000}
read -r -a counts <<<"${CLIENTS:-1 4}"
warm_up=${WARM_UP:-10}
share=${SHARE:-50}
# Arrays of each kind; clients choose one at random.
arrays=4

declare -A settings=(
	[CPU]='-c harmonia.enable_device=off'
	["machine's memory"]='')

# make_arrays NAME ROW: arrays of the keys of rows, whose number an expression gives, from 1 on.  It has a
# random number "r", at least 0 and below 1.
make_arrays() {
	sql -c "INSERT INTO arrays SELECT '$1', number, array_agg($step * ($2))
		FROM generate_series(1, $arrays) number,
			LATERAL (SELECT ((hashint8extended(i, number) & 4503599627370495) / 4503599627370496.0)::float8 AS r
				FROM generate_series(1::bigint, $keys) i) x GROUP BY number"
}

load() {
	local jobs job zipf="least(floor(exp(r * ln($rows + 1.0::float8))), $rows)::bigint"
	jobs=$(nproc)
	# Keys take 64 bits in leaves, as those without an order of their own do.
	step=$((9000000000000000000 / rows))
	say "Loading $rows rows"
	sql -c 'CREATE TABLE points (k bigint, v int)' \
		-c 'CREATE TABLE arrays (draw text, number int, keys bigint[])' \
		-c 'ALTER TABLE arrays ALTER keys SET STORAGE EXTERNAL'
	for ((job = 0; job < jobs; job++)); do
		sql -c "INSERT INTO points SELECT $step * i, i
			FROM generate_series($rows * $job / $jobs + 1::bigint, $rows * ($job + 1) / $jobs) i" &
	done
	wait
	make_arrays uniform "1 + floor(r * $rows)::bigint" &
	make_arrays zipf "1 + (hashint8extended($zipf, 0) & 4611686018427387903) % $rows" &
	make_arrays recent "$rows + 1 - $zipf" &
	wait
	sql -c "SET max_parallel_maintenance_workers = $((jobs / 2))" \
		-c 'CREATE INDEX points_k ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' -c 'CHECKPOINT' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_k,arrays}'::regclass[]) x" >"$dir/load"
}

# Copies may have a share of the device's memory, and enough of the machine's.
limit_memory() {
	local size
	size=$(sql -c "SELECT pg_relation_size('points_k') / 1048576")
	say "The index has $size MB, copies may take $((size * share / 100)) MB of the device"
	sql -c "ALTER SYSTEM SET harmonia.device_memory = '$((size * share / 100))MB'" \
		-c "ALTER SYSTEM SET harmonia.device_host_memory = '$((size * 11 / 10))MB'" -c 'SELECT pg_reload_conf()' \
		-c 'SELECT pg_sleep(3)' >"$dir/limit"
	for ((i = 0; i < 100; i++)); do
		[ "$(sql -c 'SELECT state FROM harmonia_device()')" != up ] || return 0
		sleep 0.2
	done
	die 'the device is not up'
}

statement() {
	echo "SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE draw = '$1' AND number = :number)::bigint[]);"
}

# check DRAW: both find the same.
check() {
	local number=1 device cpu
	for ((number = 1; number <= arrays; number++)); do
		device=$(sql -c 'SET harmonia.force_device = on' -c "$(statement "$1" | sed "s/:number/$number/")" | tail -n 1)
		cpu=$(sql -c 'SET harmonia.enable_device = off' -c "$(statement "$1" | sed "s/:number/$number/")" | tail -n 1)
		[ "$device" = "$cpu" ] || die "$1: $device rows on the device, $cpu on the CPU"
	done
}

# section DRAW: the CPU, and the choice.
section() {
	local draw=$1 clients run system figure seconds=$seconds_a_run
	options=
	seconds_a_run=$warm_up
	transactions_a_second 2 "\\set number random(1, $arrays)" "$(statement "$draw")" >"$dir/warm"
	seconds_a_run=$seconds
	check "$draw"
	for clients in "${counts[@]}"; do
		for ((run = 0; run < runs; run++)); do
			for system in CPU "machine's memory"; do
				sql -c "SELECT harmonia_stat_reset()" >"$dir/reset"
				options=${settings[$system]}
				transactions_a_second "$clients" "\\set number random(1, $arrays)" "$(statement "$draw")" |
					note "$system" queries/s
				options=
			done
		done
		summary median >"$dir/cell"
		while IFS=$'\t' read -r system _ figure _; do
			record "$draw" "$clients clients" "$system" "$figure" queries/s "$runs"
		done <"$dir/cell"
		record "$draw" "$clients clients" "machine's memory: times the CPU" \
			"$(awk -F '\t' '{ v[$1 == "CPU"] = $3 } END { print v[0] / v[1] }' "$dir/cell")" times "$runs"
		record "$draw" "$clients clients" "machine's memory: keys on the device" \
			"$(sql -c "SELECT round(device_keys / greatest(keys, 1.0), 3) FROM pg_stat_harmonia WHERE indexrelname = 'points_k'")" share "$runs"
	done
	sql -c "SELECT loads, pg_size_pretty(device_bytes), pg_size_pretty(host_bytes), pg_size_pretty(bytes_to_device)
		FROM pg_stat_harmonia WHERE indexrelname = 'points_k'" | sed 's/^/Copies made, memory, of this the machine, bytes sent: /'
}

section_uniform() { section uniform; }
section_zipf() { section zipf; }
section_recent() { section recent; }

[ -n "${BINDIR:-}" ] || make -s -j "$(nproc)" -C "$root/cuda"
start_server $((rows * 150 / 1000000 + 1024)) -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c max_connections=200 -c synchronous_commit=off -c shared_preload_libraries=harmonia -c harmonia.gpu="${DEVICE:-on}"
load
limit_memory
run_sections uniform zipf recent -- "$@"
