-- Runs the same queries with a harmonia index, without an index and with a btree
-- index, and compares answers and times. demo.sh runs this file after a pgbench run
-- that has changed a table with a harmonia index.

VACUUM ANALYZE pgbench_accounts, pgbench_history;

-- One process for each query and build, so that times can be compared.
SET max_parallel_workers_per_gather = 0;
SET max_parallel_maintenance_workers = 0;

CREATE TEMP TABLE questions
	(number serial, question text, query text, without_index text);
INSERT INTO questions (question, query) VALUES
('batch of keys',
 'SELECT count(*), sum(abalance) FROM pgbench_accounts
  WHERE aid = ANY (ARRAY(SELECT aid FROM pgbench_history))'),
('join',
 'SELECT count(*), sum(abalance) FROM pgbench_history JOIN pgbench_accounts USING (aid)'),
('semi-join',
 'SELECT count(*), sum(abalance) FROM pgbench_accounts a
  WHERE EXISTS (SELECT FROM pgbench_history h WHERE h.aid = a.aid AND delta > 0)'),
('range',
 'SELECT count(*), sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN 10001 AND 60000'),
('last 1000 in order',
 'SELECT min(aid), max(aid) FROM
  (SELECT aid FROM pgbench_accounts ORDER BY aid DESC LIMIT 1000) last');

-- Without an index, = ANY would compare each row with every key of the array.
UPDATE questions SET without_index =
	'SELECT count(*), sum(abalance) FROM pgbench_accounts
	 WHERE aid IN (SELECT aid FROM pgbench_history)'
WHERE question = 'batch of keys';

CREATE TEMP TABLE answers
	(number int, method text, answer text, plan text, milliseconds numeric);
CREATE TEMP TABLE builds (method text, milliseconds numeric, size text);

-- The plan node that reads pgbench_accounts.
CREATE FUNCTION pg_temp.access_path(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'HarmoniaLookup' THEN
			RETURN (regexp_match(line, 'HarmoniaLookup[A-Za-z]+'))[1];
		END IF;
		IF line ~ '(on pgbench_accounts|using demo|using pgbench_accounts_pkey)' THEN
			RETURN (regexp_match(line, '([A-Z][A-Za-z -]*?)(?: Backward)? (?:using|on) '))[1];
		END IF;
	END LOOP;
	RETURN 'other';
END
$$;

-- Run each query four times; keep the median time of the last three.
CREATE FUNCTION pg_temp.ask(method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	q record;
	answer record;
	times numeric[];
	start timestamptz;
BEGIN
	FOR q IN SELECT number,
			CASE WHEN method = 'none' THEN coalesce(without_index, query) ELSE query END AS query
		FROM questions
	LOOP
		times := '{}';
		FOR run IN 0..3 LOOP
			start := clock_timestamp();
			EXECUTE q.query INTO answer;
			IF run > 0 THEN
				times := times || (extract(epoch FROM clock_timestamp() - start) * 1000);
			END IF;
		END LOOP;
		INSERT INTO answers
			SELECT q.number, method, answer::text, pg_temp.access_path(q.query),
				percentile_disc(0.5) WITHIN GROUP (ORDER BY t) FROM unnest(times) t;
	END LOOP;
END
$$;

CREATE FUNCTION pg_temp.build(method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
BEGIN
	EXECUTE format('CREATE INDEX demo_%1$s ON pgbench_accounts USING %1$s (aid)', method);
	INSERT INTO builds VALUES
		(method, extract(epoch FROM clock_timestamp() - start) * 1000,
		 pg_size_pretty(pg_relation_size('demo_' || method)));
END
$$;

\o /dev/null
ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey;
SELECT pg_temp.ask('harmonia');
DROP INDEX demo_harmonia;
SELECT pg_temp.ask('none');
SELECT pg_temp.build('btree');
SELECT pg_temp.ask('btree');
DROP INDEX demo_btree;
SELECT pg_temp.build('harmonia');
\o

SELECT
	(SELECT count(*) FROM pgbench_accounts) AS accounts,
	(SELECT count(*) FROM pgbench_history) AS history \gset
\echo :accounts accounts, :history rows of history, one process, milliseconds (median of 3)
\pset footer off

SELECT question, h.answer,
	CASE WHEN h.answer = b.answer AND h.answer = n.answer THEN 'yes' ELSE 'NO' END AS "all agree",
	round(n.milliseconds, 1) AS "no index",
	round(b.milliseconds, 1) AS btree, b.plan AS "btree's plan",
	round(h.milliseconds, 1) AS harmonia, h.plan AS "harmonia's plan"
FROM questions
	JOIN answers h USING (number) JOIN answers b USING (number) JOIN answers n USING (number)
WHERE h.method = 'harmonia' AND b.method = 'btree' AND n.method = 'none'
ORDER BY number;

SELECT method AS index, round(milliseconds, 1) AS "build, ms", size FROM builds;

-- Fail if any answer differs.
SELECT 1 / (count(DISTINCT answer) = 1)::int AS same FROM answers GROUP BY number \g /dev/null
