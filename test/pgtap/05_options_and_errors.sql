-- Index options, and the SQLSTATEs of errors.
\ir setup.inc
SELECT plan(20);

CREATE TABLE t (a int, b int, label text, place point);
INSERT INTO t SELECT i, i, i FROM generate_series(1, 20000) i;

-- Options
SELECT lives_ok('CREATE INDEX sparse ON t USING harmonia (a) WITH (fillfactor = 50, fanout = 16)');
SELECT lives_ok('CREATE INDEX dense ON t USING harmonia (a) WITH (fillfactor = 100)');
SELECT cmp_ok(pg_relation_size('sparse'), '>', pg_relation_size('dense') * 3 / 2,
	'a lower fill factor makes a larger index');
SELECT lives_ok('ALTER INDEX sparse SET (fillfactor = 90)');
SELECT lives_ok('REINDEX INDEX sparse');
SELECT cmp_ok(pg_relation_size('sparse'), '<', pg_relation_size('dense') * 3 / 2,
	'REINDEX applies it');
SELECT lives_ok('ALTER INDEX sparse RESET (fanout, fillfactor)');

SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) WITH (fillfactor = 9)', '22023');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) WITH (fillfactor = 101)', '22023');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) WITH (fanout = 7)', '22023');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) WITH (fanout = 129)', '22023');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) WITH (colour = green)', '22023');

-- Settings
SELECT lives_ok('SET LOCAL harmonia.insert_batch_memory = ''1MB''');
SELECT throws_ok('SET LOCAL harmonia.insert_batch_memory = ''1kB''', '22023');

-- What cannot be indexed
SELECT throws_ok('CREATE UNIQUE INDEX ON t USING harmonia (a)', '0A000');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a, b, a, b, a, b, a, b, a)', '54011');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (a) INCLUDE (place)', '0A000');
SELECT throws_ok('ALTER TABLE t ADD EXCLUDE USING harmonia (a WITH <)', '42809');
SELECT throws_ok('CREATE INDEX ON t USING harmonia (place)', '42704');

-- NULLS FIRST and DESC are allowed.
CREATE INDEX descending ON t USING harmonia (b DESC NULLS LAST);
SELECT is(plan_of('SELECT b FROM t ORDER BY b DESC NULLS LAST LIMIT 1') ~ 'Sort', false,
	'an index serves DESC NULLS LAST without sorting');

SELECT * FROM finish();
ROLLBACK;
