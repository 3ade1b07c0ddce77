#!/bin/bash
# Tables whose rows die young, with a harmonia index beside btree, on a private server: transactions a second
# over a long run, and the size of the index at the end.  Prints Markdown tables, and which targets are
# reached.
#
# usage: bench/dead.sh [SECTION...]
#
#   manual      without any VACUUM
#   auto        with autovacuum, which looks every ten seconds
#   default: both
#
# Environment: SECONDS_A_RUN (120), QUEUE_SECONDS (the queue's; five times SECONDS_A_RUN), TURN (20), RUNS (1), CASES (a pattern: cases
# to be run), and the variables of bench/common.sh.  All cases take about 90 times SECONDS_A_RUN.  ROWS is
# not used.
#
# Two clients run a script with each access method for SECONDS_A_RUN, in turns of TURN seconds, so that a machine whose
# speed changes is no worse for one of them.  Harmonia misses a turn when it is ahead in transactions, because what is
# left after more of them may be larger.  Each run begins with a new table d and its index d_k, in a schema for each
# access method, and a checkpoint.  Everything is in shared buffers, fsync and synchronous_commit are off.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite dead 0 1 120
queue_seconds=${QUEUE_SECONDS:-$((5 * seconds_a_run))}
cases=${CASES:-*}
turn=${TURN:-$((seconds_a_run < 20 ? seconds_a_run : 20))}

# start_reader: opens a transaction with a snapshot that lasts; sets $reader to its process.  psql keeps the
# transaction open until its input ends.
start_reader() {
	coproc READER { sql -c '\set ON_ERROR_STOP 1' -f - >"$dir/reader"; }
	echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM btree.d LIMIT 1;' >&"${READER[1]}"
	until [ "$(sql -c "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'")" = 1 ]; do
		sleep 0.1
	done
}

stop_reader() {
	eval "exec ${READER[1]}>&-"
	wait "$READER_PID"
}

# make_table METHOD SQL: makes the table and the index anew.
make_table() {
	sql -c "DROP SCHEMA IF EXISTS $1 CASCADE; CREATE SCHEMA $1; SET search_path = $1; CREATE SEQUENCE d_s" \
		-c "${2//METHOD/$1}" -c "ALTER TABLE d SET (autovacuum_enabled = $autovacuum)"
}

# take_turn METHOD STATEMENT...: adds a turn to $turns, and its transactions a second to $total.
take_turn() {
	local method=$1 rate options="-c enable_seqscan=off -c enable_bitmapscan=off -c search_path=$1,public" seconds_a_run=$turn
	shift
	rate=$(transactions_a_second 2 "$@")
	turns[$method]=$((turns[$method] + 1))
	total[$method]=$(awk -v total="${total[$method]}" -v rate="$rate" 'BEGIN { print total + rate }')
}

# take_turns SECONDS STATEMENT...: both access methods in turn, until btree has run for that long.
take_turns() {
	local n=$((($1 + turn - 1) / (turn > 0 ? turn : 1))) i
	shift
	for ((i = 0; i < (n > 0 ? n : 1); i++)); do
		take_turn btree "$@"
		if [ "$i" -eq 0 ] || awk "BEGIN { exit !(${total[harmonia]} < ${total[btree]}) }"; then
			take_turn harmonia "$@"
		fi
	done
}

# dead_case NAME SQL STATEMENT...: measures a case.  SQL makes the table d and the index d_k; METHOD stands
# for the access method.  A long reader is there in cases that have it in their names.
dead_case() {
	local name=$1 setup=$2 seconds=$seconds_a_run method run
	local -A turns total
	shift 2
	# shellcheck disable=SC2254
	case $name in
		$cases) ;;
		*) return 0 ;;
	esac
	[ "$name" != queue ] || seconds=$queue_seconds
	for ((run = 0; run < runs; run++)); do
		turns=([btree]=0 [harmonia]=0) total=([btree]=0 [harmonia]=0)
		make_table btree "$setup"
		make_table harmonia "$setup"
		sql -c CHECKPOINT
		[[ $name != *'long reader'* ]] || start_reader
		take_turns "$seconds" "$@"
		[[ $name != *'long reader'* ]] || stop_reader
		for method in btree harmonia; do
			awk "BEGIN { print ${total[$method]} / ${turns[$method]} }" | note "$method" transactions/s
			sql -c "SELECT pg_relation_size('$method.d_k') / 8192" | note "$method" pages
			sql -c "SELECT pg_stat_get_autovacuum_count('$method.d'::regclass)" | note "$method" 'runs of autovacuum'
		done
	done
	record_noted "$section" "$name"
}

run_cases() {
	local table='CREATE TABLE d (id bigint PRIMARY KEY, k bigint, n bigint);'
	local index='CREATE INDEX d_k ON d USING METHOD (k)'
	local thousand="$table $index; INSERT INTO d SELECT i, i % 10, 0 FROM generate_series(1, 1000) i"
	dead_case queue "CREATE TABLE d (k bigint); $index" \
		"INSERT INTO d VALUES (nextval('d_s'));" \
		'DELETE FROM d WHERE ctid = (SELECT ctid FROM d ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED);'
	dead_case 'sliding window' "CREATE TABLE d (k bigint); $index; INSERT INTO d SELECT nextval('d_s') FROM generate_series(1, 1000)" \
		"INSERT INTO d VALUES (nextval('d_s'));" \
		"DELETE FROM d WHERE k BETWEEN currval('d_s') - 1010 AND currval('d_s') - 1000;"
	dead_case 'balances of pgbench -N' "CREATE TABLE d (id bigint PRIMARY KEY, k bigint, filler char(84)); $index;
		CREATE TABLE h (id bigint, delta bigint, at timestamptz); INSERT INTO d SELECT i, 0, '' FROM generate_series(1, 100000) i" \
		'\set id random(1, 100000)' '\set delta random(-5000, 5000)' BEGIN\; 'UPDATE d SET k = k + :delta WHERE id = :id;' \
		'SELECT k FROM d WHERE id = :id;' 'INSERT INTO h VALUES (:id, :delta, CURRENT_TIMESTAMP);' COMMIT\;
	dead_case 'values that change' "$thousand" \
		'\set id random(1, 1000)' '\set delta random(-5000, 5000)' 'UPDATE d SET k = k + :delta WHERE id = :id;' \
		'SELECT count(*) FROM d WHERE k BETWEEN :delta AND :delta + 10;'
	dead_case 'status flips' "$thousand" \
		'\set id random(1, 1000)' 'UPDATE d SET k = (k + 1) % 3 WHERE id = :id;' 'SELECT id FROM d WHERE k = :id % 3 LIMIT 10;'
	dead_case 'values that stay' "$thousand; CREATE INDEX ON d (n)" \
		'\set id random(1, 1000)' 'UPDATE d SET n = n + 1 WHERE id = :id;'
	dead_case 'counters with a long reader' "$thousand; CREATE INDEX ON d (n)" \
		'\set id random(1, 1000)' 'UPDATE d SET n = n + 1, k = k + 1 WHERE id = :id;'
	dead_case 'more deletes than inserts' "CREATE TABLE d (k bigint); $index;
		INSERT INTO d SELECT hashint8extended(i, 0) FROM generate_series(1, 1000000) i" \
		'\set i random(1, 1000000)' 'DELETE FROM d WHERE k = hashint8extended(:i, 0);' 'DELETE FROM d WHERE k = hashint8extended(:i + 1, 0);' \
		'INSERT INTO d VALUES (hashint8extended(:i, 0));'
	dead_case 'rolled back' "$table $index" \
		'\set i random(1, 1000)' 'SELECT count(*) FROM d WHERE k BETWEEN :i AND :i + 100;' BEGIN\; \
		"INSERT INTO d SELECT nextval('d_s'), i, 0 FROM generate_series(:i, :i + 100) i;" ROLLBACK\;
}

section_manual() {
	local section='rows that die young' autovacuum=off
	run_cases
}

section_auto() {
	local section='rows that die young with autovacuum' autovacuum=on
	run_cases
}

start_server 2048 -c synchronous_commit=off -c max_parallel_workers_per_gather=0 -c autovacuum=on -c autovacuum_naptime=10s
run_sections manual auto -- "$@"
print_targets
