#!/bin/bash
# Compares the statements of bench/etl.sql, of kinds that people run on the tables of a shop, its events and
# its sensors: on btree indexes, with harmonia indexes in place of the secondary ones and beside the primary keys, with
# the best plan that can be forced there, and in DuckDB with one thread.  Processor time of the backend; for
# DuckDB the time that passes.  Answers are compared.
#
# usage: bench/etl.sh [SECTION...]
#
#   statements prepared      default: both of them
#
# Environment: ROWS (2000000, of orders; the other tables follow), RUNS (3), PYTHON (python3, which may have duckdb), and the
# variables of bench/statements.sh and bench/common.sh.  Takes 4 kB of memory and disk space for each row.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"
# shellcheck source-path=SCRIPTDIR source=statements.sh
. "$root/bench/statements.sh"

start_suite etl 2000000 3 0
python=${PYTHON:-python3}

# The tables, as both PostgreSQL and DuckDB make them; "readings" is partitioned in PostgreSQL.
tables() {
	cat <<-'END'
		CREATE TABLE customers (id bigint, external_id uuid, email text, country int, segment int, created timestamp);
		CREATE TABLE products (id int, sku text, name text, category int, brand int, price int);
		CREATE TABLE segments (id int, name text);
		CREATE TABLE orders (id bigint, customer_id bigint, created timestamp, status smallint, total int);
		CREATE TABLE items (order_id bigint, line int, product_id int, quantity int, price int);
		CREATE TABLE events (id uuid, user_id bigint, seen timestamp, kind int, payload text);
		CREATE TABLE sensors (id int, room int);
		CREATE TABLE wanted_orders (id bigint);
		CREATE TABLE recent_orders (id bigint);
		CREATE TABLE wanted_customers (id bigint);
		CREATE TABLE crm (external_id uuid, score int);
		CREATE TABLE deliveries (sku text, quantity int);
		CREATE TABLE returned_items (order_id bigint, line int, price int);
		CREATE TABLE viewed (product_id int);
		CREATE TABLE new_events (id uuid, user_id bigint, seen timestamp, kind int);
		CREATE TABLE new_customers (email text);
		CREATE TABLE bank (order_id bigint, amount int);
		CREATE TABLE clicks (order_id bigint, product_id int, customer_id bigint);
		CREATE TABLE alarms (sensor int, seen timestamp);
	END
}

table_names() {
	tables | sed 's/CREATE TABLE \([a-z_]*\).*/\1/'
	echo readings
}

load() {
	say "Loading $rows orders and what belongs to them"
	sql -c 'CREATE DATABASE base'
	tables | sql -d base
	sql -d base -v rows="$rows" <<-'END'
		CREATE FUNCTION number(i bigint, seed int, n bigint) RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql
			AS 'SELECT (hashint8extended(i, seed) & 4611686018427387903) % n';
		CREATE FUNCTION id_of(i bigint, seed int) RETURNS uuid IMMUTABLE PARALLEL SAFE LANGUAGE sql
			AS 'SELECT md5(seed || ''-'' || i)::uuid';
		INSERT INTO customers SELECT i, id_of(i, 1), 'user' || number(i, 2, :rows / 4) || '@' || number(i, 3, 20) || '.example',
			number(i, 4, 50), number(i, 5, 200), timestamp '2020-01-01' + number(i, 6, 1500) * interval '1 day' FROM generate_series(1::bigint, :rows / 4) i;
		INSERT INTO products SELECT i, 'SKU-' || upper(substr(md5(i::text), 1, 12)), 'product ' || i, number(i, 7, 100), number(i, 8, 500),
			number(i, 9, 10000) + 1 FROM generate_series(1::bigint, :rows / 20) i;
		INSERT INTO segments SELECT i, 'segment ' || i FROM generate_series(0, 199) i;
		INSERT INTO orders SELECT i, 1 + number(i, 10, :rows / 4), timestamp '2023-01-01' + i * (interval '550 days' / :rows), number(i, 11, 5),
			number(i, 12, 100000) FROM generate_series(1::bigint, :rows) i;
		INSERT INTO items SELECT o, l, 1 + number(o * 8 + l, 13, :rows / 20), 1 + number(o * 8 + l, 14, 5), number(o * 8 + l, 15, 10000)
			FROM generate_series(1::bigint, :rows) o, generate_series(1, 1 + number(o, 16, 4)) l;
		INSERT INTO events SELECT id_of(i, 2), 1 + number(i, 17, :rows / 4), timestamp '2024-01-01' + number(i, 18, 15000000) * interval '1 s',
			number(i, 19, 12), md5(i::text) FROM generate_series(1::bigint, :rows) i;
		INSERT INTO sensors SELECT i, i % 50 FROM generate_series(1, 1000) i;
		CREATE TABLE readings (sensor int, seen timestamp, value int) PARTITION BY RANGE (seen);
		SELECT format('CREATE TABLE readings_%s PARTITION OF readings FOR VALUES FROM (%L) TO (%L)', m,
			timestamp '2024-01-01' + (m - 1) * interval '1 month', timestamp '2024-01-01' + m * interval '1 month')
			FROM generate_series(1, 12) m \gexec
		INSERT INTO readings SELECT 1 + i % 1000, timestamp '2024-01-01' + (i / 1000) * (interval '365 days' * 1000 / :rows), number(i, 20, 1000)
			FROM generate_series(0::bigint, :rows - 1) i;
		INSERT INTO wanted_orders SELECT 1 + number(i, 21, :rows * 11 / 10) FROM generate_series(1::bigint, :rows / 20) i;
		INSERT INTO recent_orders SELECT :rows - number(i, 22, :rows / 10) FROM generate_series(1::bigint, :rows / 100) i;
		INSERT INTO wanted_customers SELECT DISTINCT 1 + number(i, 23, :rows / 4) FROM generate_series(1::bigint, :rows / 100) i;
		INSERT INTO crm SELECT id_of(1 + number(i, 24, :rows / 3), 1), i FROM generate_series(1::bigint, :rows / 40) i;
		INSERT INTO deliveries SELECT sku, number(id, 25, 100) FROM products WHERE number(id, 26, 4) = 0;
		INSERT INTO returned_items SELECT order_id, line, price - number(order_id, 27, 3) FROM items WHERE number(order_id, 28, 60) = 0;
		INSERT INTO viewed SELECT 1 + number(i, 29, :rows / 20) FROM generate_series(1::bigint, :rows / 200) i;
		INSERT INTO new_events SELECT id_of(1 + number(i, 30, :rows * 2), 2), 1 + number(i, 31, :rows / 4),
			timestamp '2024-01-01' + number(i, 32, 15000000) * interval '1 s', number(i, 33, 12) FROM generate_series(1::bigint, :rows / 20) i;
		INSERT INTO new_customers SELECT 'user' || number(i, 34, :rows / 2) || '@' || number(i, 35, 20) || '.example' FROM generate_series(1::bigint, :rows / 40) i;
		INSERT INTO bank SELECT 1 + number(i, 36, :rows * 21 / 20), number(i, 37, 100000) FROM generate_series(1::bigint, :rows / 20) i;
		INSERT INTO clicks SELECT 1 + number(i, 38, :rows), 1 + number(i, 39, :rows / 20), 1 + number(i, 40, :rows / 4) FROM generate_series(1::bigint, :rows / 20) i;
		INSERT INTO alarms SELECT sensor, seen + number(value, 41, 2) * interval '1 s' FROM readings WHERE number(sensor * 1000 + value, 42, 40) = 0;
		ALTER TABLE customers ADD PRIMARY KEY (id);
		ALTER TABLE products ADD PRIMARY KEY (id);
		ALTER TABLE segments ADD PRIMARY KEY (id);
		ALTER TABLE orders ADD PRIMARY KEY (id);
		ALTER TABLE items ADD PRIMARY KEY (order_id, line);
		ALTER TABLE events ADD PRIMARY KEY (id);
		ALTER TABLE sensors ADD PRIMARY KEY (id);
		ALTER TABLE readings ADD PRIMARY KEY (sensor, seen);
		CREATE UNIQUE INDEX ON customers (external_id);
		CREATE UNIQUE INDEX ON products (sku);
		CREATE INDEX ON customers (email);
		CREATE INDEX ON customers (segment);
		CREATE INDEX ON products (brand);
		CREATE INDEX ON orders (customer_id);
		CREATE INDEX ON orders (created);
		CREATE INDEX ON items (product_id);
		CREATE INDEX ON events (user_id, seen);
		CREATE INDEX ON bank (order_id);
	END
	replace_secondary_indexes >"$dir/indexes.sql"
	make_copies "$dir/indexes.sql"
}

# start_duckdb: DuckDB with a copy of the tables, as process $duckdb_PID, if Python has it.
start_duckdb() {
	local table
	if ! "$python" -c 'import duckdb' 2>/dev/null; then
		say 'No DuckDB'
		return
	fi
	say 'Copying the tables to DuckDB'
	coproc duckdb { "$python" "$root/bench/duck.py"; }
	while read -r table; do
		ask_duckdb 1 "$table"
	done < <(tables)
	ask_duckdb 1 'CREATE TABLE readings (sensor int, seen timestamp, value int)'
	while read -r table; do
		sql -d base -c "COPY (SELECT * FROM $table) TO STDOUT (FORMAT csv)" >"$dir/table.csv"
		ask_duckdb 1 "COPY $table FROM '$dir/table.csv'"
	done < <(table_names)
	rm "$dir/table.csv"
}

# ask_duckdb TIMES STATEMENT: sets duckdb_took to the milliseconds of each time, and duckdb_answer.
ask_duckdb() {
	printf '%s\t%s\n' "$1" "${2//$'\n'/ }" >&"${duckdb[1]}"
	IFS=$'\t' read -r duckdb_took duckdb_answer <&"${duckdb[0]}" || die "DuckDB refuses $2"
}

# with_numbers STATEMENT: prints it with lists of order numbers in place of @N@ and @(N)@.
with_numbers() {
	local statement=$1 count list
	while [[ $statement =~ @(\(?)([0-9]+)\)?@ ]]; do
		count=${BASH_REMATCH[2]}
		list=$(seq "$count" | awk -v rows="$rows" -v open="${BASH_REMATCH[1]}" \
			'{ n = 1 + ($1 * 7919) % rows; printf("%s%s", (NR > 1 ? "," : ""), (open == "" ? n : "(" n ")")) }')
		statement=${statement/"${BASH_REMATCH[0]}"/$list}
	done
	printf '%s' "$statement"
}

# compare_with_duckdb SECTION NAME STATEMENT
compare_with_duckdb() {
	[[ $2 =~ ${STATEMENTS:-.} ]] || return 0
	ask_duckdb "$((runs + 1))" "$3"
	cmp -s <(tr ' ' '\n' <"$dir/answer.btree" | sort) <(tr ' ' '\n' <<<"$duckdb_answer" | sort) ||
		die "$2: DuckDB answers otherwise: $duckdb_answer"
	record "$1" "$2" DuckDB "$(tr ' ' '\n' <<<"$duckdb_took" | tail -n +2 | median)" ms "$runs"
}

section_statements() {
	local line name='' statement=''
	open_sessions max_parallel_workers_per_gather=0 "work_mem='256MB'"
	[ -v duckdb ] || start_duckdb
	while IFS= read -r line; do
		if [[ $line == '-- '*': '* ]]; then
			name=${line#-- }
			statement=''
		elif [ -z "$line" ] && [ -n "$name" ]; then
			statement=$(with_numbers "$statement")
			compare_statement statements "$name" "$statement"
			[ ! -v duckdb ] || compare_with_duckdb statements "$name" "$statement"
			name=''
		else
			statement+=$line$'\n'
		fi
	done < <(cat "$root/bench/etl.sql" && echo)
	close_sessions
	record_means statements
}

# Statements with parameters, as drivers and PL/pgSQL send them, with generic plans: 1,000 times one key,
# 100 times a hundred, once a hundred thousand.
section_prepared() {
	local keys times
	local -A statement=([bigints]='SELECT count(*), sum(total) FROM orders WHERE id = ANY (keys)'
		[ints]='SELECT count(*), sum(price) FROM items WHERE order_id = ANY (keys::int[])'
		[join]='SELECT count(*), sum(o.total) FROM unnest(keys) k JOIN orders o ON o.id = k')
	open_sessions max_parallel_workers_per_gather=0 plan_cache_mode=force_generic_plan
	for keys in 1 10 100 1000 10000 100000; do
		times=$((keys < 1000 ? 1000 / keys : 1))
		for name in bigints ints join; do
			compare_statement prepared "$name: $keys keys $times times" "DO \$\$ DECLARE keys bigint[]; answer_count bigint; answer_sum bigint; BEGIN
				FOR i IN 1 .. $times LOOP
					keys := array(SELECT 1 + (i * 104729 + j * 7919::bigint) % $rows FROM generate_series(1, $keys) j);
					${statement[$name]/FROM/INTO answer_count, answer_sum FROM};
				END LOOP; PERFORM set_config('etl.answer', answer_count || ' ' || answer_sum, false); END \$\$; SHOW etl.answer"
		done
	done
	close_sessions
	record_means prepared
}

start_with_data "$((rows / 500 + 500))"
run_sections statements prepared -- "$@"
