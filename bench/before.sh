#!/bin/bash
# Compares the checkout with an earlier commit: the processor time of the backend for the same
# statements on two private servers.  Prints a Markdown table.
#
# usage: bench/before.sh [SECTION...]
#
#   answers index single planning      default: all of them
#
# Environment:
#
#   ROWS (2000000), PROBES (ROWS / 20), RUNS (9)
#   BEFORE           the commit to compare with (HEAD~1); or BEFORE_BINDIR, programs that have it
#   and the variables of bench/common.sh
#
# The servers take turns, statement by statement, and the first execution does not count.  What
# counts is the time that the backend was on a processor (/proc/PID/schedstat), so that other work
# on the machine matters less.  "Ratio" is the median of the ratios of neighbouring executions;
# "half of them" is where the middle half of these ratios lies.  Takes about 600 bytes of memory for
# each row.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite before 2000000 9 0
probes=${PROBES:-$((rows / 20))}
megabytes=$((rows * 300 / 1000000 + 512))
settings=(-c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0
	-c session_preload_libraries=harmonia -c work_mem=256MB)
systems=(before main)

start_systems() {
	local system
	start_server "$megabytes" "${settings[@]}"
	if [ -z "${BEFORE_BINDIR:-}" ]; then
		say "Building ${BEFORE:-HEAD~1}"
		BEFORE_BINDIR=$(install_copy before_copy "$PG_CONFIG" "${BEFORE:-HEAD~1}")
	fi
	add_server before "$BEFORE_BINDIR" "$megabytes" "${settings[@]}"
	for system in "${systems[@]}"; do
		use_server "$system"
		load
		open_session "$system"
	done
}

load() {
	say "Loading $rows rows"
	sql <<-END
		CREATE FUNCTION number(i bigint, seed int, n bigint) RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql
			AS 'SELECT 1 + (hashint8extended(i, seed) & 4611686018427387903) % n';
		CREATE TABLE t AS SELECT number(i, 1, 1::bigint << 62) AS k, i::int AS id, number(i, 2, $rows / 100)::int AS a,
			i AS v, md5(i::text) AS name FROM generate_series(1, $rows::bigint) i;
		CREATE TABLE p AS SELECT k, id, a, name, number(i, 3, 1000)::int AS g
			FROM generate_series(1, $probes::bigint) i JOIN t ON t.id = number(i, 4, $rows);
		CREATE TABLE parts (k int, v bigint) PARTITION BY RANGE (k);
		SELECT format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES FROM (%s) TO (%s)', i,
			i * ($rows / 8 + 1), (i + 1) * ($rows / 8 + 1)) FROM generate_series(0, 7) i \gexec
		INSERT INTO parts SELECT id, v FROM t;
		CREATE INDEX t_k ON t USING harmonia (k);
		CREATE INDEX t_id ON t USING harmonia (id);
		CREATE INDEX t_a_id ON t USING harmonia (a, id);
		CREATE INDEX t_name ON t USING harmonia (name);
		CREATE INDEX parts_k ON parts USING harmonia (k);
		CREATE TABLE single (k bigint, a int, b int);
		CREATE INDEX single_k ON single USING harmonia (k);
		CREATE INDEX single_a_b ON single USING harmonia (a, b);
		CREATE SEQUENCE turn;
		VACUUM ANALYZE;
	END
}

# for_both STATEMENT: what has no answer.
for_both() {
	local system
	for system in "${systems[@]}"; do
		ask "$system" "$1"
	done
}

# compare SECTION CASE STATEMENT [BEFORE EACH]: records the times of a statement, which has to have the same
# answer on both.
compare() {
	local section=$1 name=$2 statement=$3 each=${4:-} run system start before after
	local -A answer=() time=()
	: >"$dir/times"
	for ((run = 0; run <= runs; run++)); do
		for system in "${systems[@]}"; do
			[ -z "$each" ] || ask "$system" "$each" >/dev/null
			start=$(processor_time "$system")
			answer[$system]=$(ask "$system" "$statement")
			time[$system]=$(($(processor_time "$system") - start))
		done
		[ "${answer[before]}" = "${answer[main]}" ] || die "$name: the answers differ"
		((run == 0)) || echo "${time[before]} ${time[main]}" >>"$dir/times"
	done
	awk '{ print $2 / $1, $1 / 1e6, $2 / 1e6 }' "$dir/times" | sort -g >"$dir/ratios"
	before=$(cut -d' ' -f2 "$dir/ratios" | median)
	after=$(cut -d' ' -f3 "$dir/ratios" | median)
	awk -v name="$section: $name" -v before="$before" -v after="$after" '
		{ ratio[NR] = $1 }
		END { printf "| %s | %.2f | %.2f | %.3f | %.3f to %.3f |\n", name, before, after, ratio[int((NR + 1) / 2)],
			ratio[int((NR + 3) / 4)], ratio[int((3 * NR + 3) / 4)] }' "$dir/ratios" | tee -a "$dir/table"
	echo "before,$section,$name,before,$before,ms,$runs," >>"$csv"
	echo "before,$section,$name,after,$after,ms,$runs," >>"$csv"
}

section_answers() {
	compare answers 'count join' 'SELECT count(*) FROM p JOIN t USING (k)'
	compare answers 'sum join' 'SELECT sum(t.v) FROM p JOIN t USING (k)'
	compare answers 'rows of a join' "SELECT count(*) FROM (SELECT t.name, p.g FROM p JOIN t USING (k) OFFSET 0) x"
	compare answers 'left join, sum' 'SELECT sum(coalesce(t.v, 1)) FROM p LEFT JOIN t USING (k)'
	compare answers 'groups of a join' 'SELECT count(*) FROM (SELECT g, sum(t.v) FROM p JOIN t USING (k) GROUP BY g) x'
	compare answers 'EXISTS' 'SELECT count(*) FROM p WHERE EXISTS (SELECT FROM t WHERE t.k = p.k)'
	compare answers 'NOT EXISTS' 'SELECT count(*) FROM p WHERE NOT EXISTS (SELECT FROM t WHERE t.k = p.k + 1)'
	compare answers 'array, counted' 'SELECT count(*) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))'
	compare answers 'array, summed' 'SELECT sum(v) FROM t WHERE k = ANY (ARRAY(SELECT k FROM p))'
	compare answers 'IN (SELECT)' 'SELECT sum(v) FROM t WHERE k IN (SELECT k FROM p)'
	compare answers 'two columns, join' 'SELECT sum(t.v) FROM p JOIN t ON t.a = p.a AND t.id = p.id'
	compare answers 'first column, counted' 'SELECT count(*) FROM p JOIN t ON t.a = p.a WHERE p.g < 10'
	compare answers 'texts, join' 'SELECT sum(t.v) FROM p JOIN t ON t.name = p.name'
	compare answers 'partitions, join' 'SELECT sum(parts.v) FROM p JOIN parts ON parts.k = p.id'
	compare answers 'partitions, array' 'SELECT sum(v) FROM parts WHERE k = ANY (ARRAY(SELECT id FROM p))'
	compare answers 'ranges' "SELECT count(*) FROM t WHERE id BETWEEN 1000 AND 50000 OR id BETWEEN 90000 AND 200000"
}

section_index() {
	compare index 'CREATE INDEX, bigint' 'CREATE INDEX made ON t USING harmonia (k)' 'DROP INDEX IF EXISTS made'
	compare index 'CREATE INDEX, two columns' 'CREATE INDEX made ON t USING harmonia (a, id)' 'DROP INDEX IF EXISTS made'
	for_both 'DROP INDEX made'
	compare index 'INSERT ... SELECT' "INSERT INTO single SELECT number(i, 5, 1::bigint << 62), i % 1000, i
		FROM generate_series(1, $probes) i" 'TRUNCATE single'
	compare index 'VACUUM, half of the rows dead' 'VACUUM single' \
		"TRUNCATE single; INSERT INTO single SELECT number(i, 5, 1::bigint << 62), i % 1000, i FROM generate_series(1, $probes) i;
		DELETE FROM single WHERE b % 2 = 0"
	compare index 'bitmap scan' 'SELECT sum(v) FROM t WHERE id BETWEEN 1000 AND 90000'
	compare index 'index-only scan' 'SET harmonia.enable_lookup_scan = off; SELECT count(*) FROM t WHERE id BETWEEN 1000 AND 200000' \
		'SET enable_seqscan = off'
	for_both 'RESET harmonia.enable_lookup_scan; RESET enable_seqscan'
}

section_single() {
	local loop="DO \$\$ DECLARE n bigint; BEGIN FOR i IN 1..20000 LOOP %s END LOOP; END \$\$"
	# shellcheck disable=SC2059
	{
		compare single 'INSERT, random keys' "$(printf "$loop" 'INSERT INTO single VALUES (number(i, 6, 1::bigint << 62), i % 1000, i);')"
		compare single 'INSERT, ascending keys' "$(printf "$loop" 'INSERT INTO single VALUES ((1::bigint << 62) + i, 2000, i);')" 'TRUNCATE single'
		compare single 'one key' "$(printf "$loop" 'SELECT v INTO n FROM t WHERE id = i;')"
		compare single 'ten keys' "$(printf "$loop" 'SELECT sum(v) INTO n FROM t WHERE id = ANY (ARRAY[i, i + 1000, i + 2000, i + 3000, i + 4000, i + 5000, i + 6000, i + 7000, i + 8000, i + 9000]);')"
		compare single 'ORDER BY, LIMIT 10' "$(printf "$loop" 'PERFORM id FROM t WHERE id > i ORDER BY id LIMIT 10;')"
		compare single 'join of ten rows' "$(printf "$loop" 'SELECT sum(t.v) INTO n FROM generate_series(i, i + 9) g JOIN t ON t.id = g;')"
	}
}

section_planning() {
	local loop="DO \$\$ BEGIN FOR i IN 1..300 LOOP EXECUTE 'EXPLAIN %s'; END LOOP; END \$\$"
	# shellcheck disable=SC2059
	{
		compare planning 'one table' "$(printf "$loop" 'SELECT v FROM t WHERE id = 5')"
		compare planning 'two tables' "$(printf "$loop" 'SELECT sum(t.v) FROM p JOIN t USING (k)')"
		compare planning 'five tables' "$(printf "$loop" 'SELECT sum(t1.v) FROM p JOIN t t1 USING (k) JOIN t t2 ON t2.id = p.id JOIN t t3 ON t3.a = p.a AND t3.id = t2.id JOIN t t4 ON t4.name = p.name WHERE t1.a = 5')"
		compare planning 'eight partitions' "$(printf "$loop" 'SELECT sum(parts.v) FROM p JOIN parts ON parts.k = p.id')"
	}
}

start_systems
printf '| case | before, ms | after, ms | ratio | half of them |\n| --- | --- | --- | --- | --- |\n' >"$dir/table"
sections=("$@")
[ ${#sections[@]} -gt 0 ] || sections=(answers index single planning)
for section in "${sections[@]}"; do
	say "Suite $suite, section $section"
	"section_$section"
done
say "$(use_server main && sql -c 'SELECT version()'), $(nproc) processors, $rows rows, $runs runs"
cat "$dir/table"
