#!/bin/bash
# Lookups in btree indexes: the same statements by PostgreSQL's own plans, by lookups in the btrees, and by
# lookups in harmonia indexes on the same columns, which are made at the end.  Processor time of the backend,
# no workers; answers are compared.
#
# usage: bench/btree.sh [SECTION...]
#
#   few many order changes latest      default: all of them
#
# "many" looks up a twentieth as many keys as the table has rows; "few" one to a thousand, 100 times each.
# "order" returns the rows of such a join, or the first of them, in the order of its outer side; "changes"
# changes or locks a tenth of the rows of a table a twentieth as large, and rolls that back.  "latest" has a
# table of readings of its own, 200 of each device, in the order of time.
#
# Environment: ROWS (20000000), RUNS (3), and the variables of bench/common.sh.  Takes 5 GB of memory and 10 GB
# of disk space with 20 million rows.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"
# shellcheck source-path=SCRIPTDIR source=statements.sh
. "$root/bench/statements.sh"

start_suite btree 20000000 3 0

load() {
	say "Loading $rows rows"
	sql -v rows="$rows" <<-'END'
		CREATE TABLE t AS SELECT i * 7919::bigint * 104729 % (:rows + 3) AS k, i::bigint AS v, gen_random_uuid() AS u, (i % 1000)::int AS a,
			i / 1000 AS b, lpad((i * 7919::bigint % (:rows + 3))::text, 20, 'x') AS s FROM generate_series(1::bigint, :rows) i;
		CREATE TABLE p AS SELECT k, u, a, b, s FROM t WHERE random() < 0.055 ORDER BY random() LIMIT :rows / 20;
		ALTER TABLE t ADD PRIMARY KEY (k);
		CREATE INDEX ON t (u);
		CREATE INDEX ON t (a, b);
		CREATE INDEX ON t (s);
		CREATE TABLE o AS SELECT row_number() OVER () AS n, k FROM p;
		CREATE UNIQUE INDEX ON o (n);
		CREATE TABLE c AS SELECT v AS id, a, b FROM t WHERE v <= :rows / 20;
		ALTER TABLE c ADD PRIMARY KEY (id);
		CREATE INDEX ON c (a, b);
		CREATE TABLE plain AS SELECT id, a, b FROM c;
		CREATE INDEX ON plain USING harmonia (id);
		CREATE TABLE staged AS SELECT id, a, b, 7 AS n FROM c WHERE hashint8(id) % 10 = 0 ORDER BY random();
		VACUUM ANALYZE t, p, o, c, plain, staged;
		CHECKPOINT;
	END
}

# open_system NAME SETTING...: a session for one of the systems.
open_system() {
	local setting
	open_session "$1"
	ask "$1" "LOAD 'harmonia'; SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB'" >/dev/null
	for setting in "${@:2}"; do
		ask "$1" "SET $setting = off" >/dev/null
	done
}

# compare SECTION NAME STATEMENT: records the medians of both systems, which take turns after a first run.
compare() {
	local run name
	for ((run = 0; run <= runs; run++)); do
		for name in PostgreSQL lookups; do
			measure "$name" "$3"
			[ "$run" -eq 0 ] || note "$name" ms <<<"$took"
		done
	done
	cmp -s "$dir/answer.PostgreSQL" "$dir/answer.lookups" || die "$2: the answers differ"
	record_noted "$1" "$2"
}

# The statements of "many": a name, and the statement.
many() {
	cat <<-'END'
		count join|SELECT count(*) FROM p JOIN t USING (k)
		EXISTS|SELECT count(*) FROM p WHERE EXISTS (SELECT FROM t WHERE t.k = p.k)
		NOT EXISTS|SELECT count(*) FROM p WHERE NOT EXISTS (SELECT FROM t WHERE t.k = p.k)
		sum join|SELECT sum(v) FROM p JOIN t USING (k)
		IN (SELECT)|SELECT sum(v) FROM t WHERE k IN (SELECT k FROM p)
		array counted|SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))
		array summed|SELECT sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))
		uuid: count join|SELECT count(*) FROM p JOIN t USING (u)
		int and bigint: count join|SELECT count(*) FROM p JOIN t USING (a, b)
		text: count join|SELECT count(*) FROM p JOIN t USING (s)
	END
}

section_many() {
	local name statement
	while IFS='|' read -r name statement; do
		compare many "$name" "$statement"
	done < <(many)
	compare_with_own_indexes
}

# The same statements by lookups in harmonia indexes.
compare_with_own_indexes() {
	local name statement run
	sql -c 'CREATE INDEX ON t USING harmonia (k)' -c 'CREATE INDEX ON t USING harmonia (u)' \
		-c 'CREATE INDEX ON t USING harmonia (a, b)' -c 'CREATE INDEX ON t USING harmonia (s)' -c 'VACUUM t'
	open_system own harmonia.enable_btree_lookup
	while IFS='|' read -r name statement; do
		for ((run = 0; run <= runs; run++)); do
			measure own "$statement"
			[ "$run" -eq 0 ] || note 'lookups in harmonia indexes' ms <<<"$took"
		done
		record_noted many "$name"
	done < <(many)
	close_session own
}

section_few() {
	local keys statement name
	local -A statement=([array]='SELECT sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p LIMIT @))'
		[join]='SELECT sum(v) FROM (SELECT k FROM p LIMIT @) q JOIN t USING (k)' [limit]='SELECT count(*) FROM (SELECT v FROM p JOIN t USING (k) LIMIT @) q')
	for keys in 1 10 100 1000; do
		for name in array join limit; do
			compare few "$name: $keys keys 100 times" "DO \$\$ BEGIN FOR i IN 1 .. 100 LOOP
				EXECUTE '${statement[$name]/@/$keys}'; END LOOP; END \$\$"
		done
	done
}

section_order() {
	local limit
	for limit in 'LIMIT 10' 'LIMIT 100' 'LIMIT 1000' 'LIMIT 10000' 'OFFSET 0'; do
		compare order "ORDER BY ... $limit" "SELECT count(*), sum(v) FROM (SELECT n, v FROM o JOIN t USING (k) ORDER BY n $limit) q"
	done
}

# The statements of "changes".
changes() {
	cat <<-'END'
		DELETE by an array|DELETE FROM c WHERE id = ANY (ARRAY(SELECT id FROM staged))
		DELETE USING|DELETE FROM c USING staged s WHERE c.id = s.id
		DELETE IN|DELETE FROM c WHERE id IN (SELECT id FROM staged)
		DELETE USING of two columns|DELETE FROM c USING staged s WHERE c.a = s.a AND c.b = s.b
		FOR UPDATE by an array|SELECT count(*) FROM (SELECT * FROM c WHERE id = ANY (ARRAY(SELECT id FROM staged)) FOR UPDATE) q
		FOR UPDATE by a join|SELECT count(*) FROM (SELECT c.* FROM c JOIN staged s USING (id) FOR UPDATE OF c) q
		UPDATE FROM with a harmonia index|UPDATE plain SET a = n FROM staged s WHERE plain.id = s.id
		UPDATE FROM|UPDATE c SET a = n FROM staged s WHERE c.id = s.id
		MERGE|MERGE INTO c USING staged s ON c.id = s.id WHEN MATCHED THEN UPDATE SET a = n WHEN NOT MATCHED THEN INSERT VALUES (s.id)
	END
}

section_changes() {
	local name statement
	while IFS='|' read -r name statement; do
		compare changes "$name" "BEGIN; $statement; ROLLBACK"
	done < <(changes)
}

# The statements of "latest".
latest() {
	cat <<-'END'
		latest of all devices|SELECT count(*), sum(value) FROM devices d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.id ORDER BY at DESC LIMIT 1) s ON true
		latest of a tenth|SELECT count(*), sum(value) FROM devices d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.id ORDER BY at DESC LIMIT 1) s ON true WHERE d.id % 10 = 0
		as of a time|SELECT count(*), sum(value) FROM trades d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.device AND r.at <= d.at ORDER BY at DESC LIMIT 1) s ON true
		top 10 of a hundredth|SELECT count(*), sum(value) FROM devices d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.id ORDER BY at DESC LIMIT 10) s ON true WHERE d.id % 100 = 0
		max of all devices|SELECT count(*), max(m) FROM (SELECT (SELECT max(at) FROM readings r WHERE r.device = d.id) AS m FROM devices d) s
		latest of a kind|SELECT count(*), sum(value) FROM devices d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.id AND kind = 3 ORDER BY at DESC LIMIT 1) s ON true
		first 10 rows|SELECT count(*), sum(value) FROM (SELECT value FROM devices d JOIN LATERAL (SELECT value FROM readings r WHERE r.device = d.id ORDER BY at DESC LIMIT 1) s ON true LIMIT 10) q
	END
}

section_latest() {
	local name statement
	sql -v rows="$rows" <<-'END'
		CREATE TABLE readings AS SELECT (i * 7919 % (:rows / 200))::int AS device, '2026-01-01'::timestamptz + i * interval '10 ms' AS at,
			(i % 1000)::float8 AS value, (i % 7)::int AS kind FROM generate_series(0::bigint, :rows - 1) i;
		CREATE INDEX ON readings (device, at);
		CREATE TABLE devices AS SELECT i AS id FROM generate_series(0, :rows / 200 - 1) i ORDER BY random();
		CREATE TABLE trades AS SELECT (random() * (:rows / 200 - 1))::int AS device, '2026-01-01'::timestamptz + random() * :rows * interval '10 ms' AS at
			FROM generate_series(1, :rows / 200) i;
		VACUUM ANALYZE readings, devices, trades;
		CHECKPOINT;
	END
	while IFS='|' read -r name statement; do
		compare latest "$name" "$statement"
	done < <(latest)
}

start_server "$((rows / 5000 + 200))" -c session_preload_libraries=harmonia
load
open_system PostgreSQL harmonia.enable_lookup_join harmonia.enable_lookup_scan harmonia.enable_lookup_aggregate
open_system lookups
run_sections few order changes latest many -- "$@"
close_session PostgreSQL
close_session lookups
