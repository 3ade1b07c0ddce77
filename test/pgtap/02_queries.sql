-- Queries that an index serves.  Their answers do not depend on the index.
\ir setup.inc
SELECT plan(46);

CREATE TABLE orders (id int, customer int, placed timestamptz, total float8);
INSERT INTO orders
	SELECT i, nullif(i * 7919 % 1009, 7), '2026-01-01 00:00Z'::timestamptz + i * interval '10 minutes', i % 100
	FROM generate_series(1, 20000) i;
CREATE INDEX orders_customer ON orders USING harmonia (customer);
CREATE INDEX orders_placed ON orders USING harmonia (placed);
ANALYZE orders;

-- One key
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = 42', 'equality');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = 42::bigint', 'another integer type');

-- Many keys
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer IN (1, 5, 5, 2000, -1)', 'IN list');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = ANY (ARRAY(SELECT i * i FROM generate_series(1, 40) i))', 'array of a subquery');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = ANY (''{}'')', 'empty array');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = ANY (''{3,null}'')', 'array with a NULL');

-- Joins
SET LOCAL enable_hashjoin = off;
SELECT served_by('orders_customer', 'SELECT o.id FROM generate_series(1, 5000, 50) key JOIN orders o ON o.customer = key', 'join');
SELECT served_by('orders_customer', 'SELECT key, o.id FROM generate_series(1, 5000, 50) key LEFT JOIN orders o ON o.customer = key', 'outer join');
SELECT served_by('orders_customer', 'SELECT key FROM generate_series(1, 5000, 50) key WHERE EXISTS (SELECT FROM orders o WHERE o.customer = key)', 'semi-join');
SELECT served_by('orders_customer', 'SELECT key FROM generate_series(1, 5000, 50) key WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer = key)', 'anti-join');
RESET enable_hashjoin;

-- Ranges
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer BETWEEN 10 AND 20', 'range');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer > 10 AND customer < 10', 'contradiction');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer < 3 OR customer = 900', 'OR');
SELECT served_by('orders_placed', 'SELECT * FROM orders WHERE placed >= ''2026-02-01'' AND placed < ''2026-02-02''', 'a day');
SELECT served_by('orders_placed', 'SELECT * FROM orders WHERE placed < ''2026-01-02''::date', 'timestamps and a date');

-- NULL keys
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer IS NULL', 'IS NULL');
SELECT served_by('orders_customer', 'SELECT * FROM orders WHERE customer = NULL::int OR customer = 8', 'equality with NULL');

-- Order
SELECT served_by('orders_placed', 'SELECT id FROM orders ORDER BY placed LIMIT 10', 'the oldest');
SELECT served_by('orders_placed', 'SELECT id FROM orders ORDER BY placed DESC LIMIT 10', 'the newest');
SELECT served_by('orders_customer', 'SELECT customer FROM orders ORDER BY customer', 'all of it, NULLs last');
SELECT served_by('orders_customer', 'SELECT customer FROM orders ORDER BY customer DESC', 'all of it backwards, NULLs first');
SELECT served_by('orders_customer', 'SELECT min(customer), max(customer) FROM orders', 'smallest and largest');

-- A prepared statement with a generic plan
PREPARE customers (int[]) AS SELECT count(*) FROM orders WHERE customer = ANY ($1);
SET LOCAL plan_cache_mode = force_generic_plan;
SELECT results_eq('EXECUTE customers (''{1,2,3}'')',
	'SELECT count(*) FROM orders WHERE customer::text IN (''1'', ''2'', ''3'')', 'generic plan');

-- A cursor that moves backward
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
DECLARE by_time SCROLL CURSOR FOR SELECT id FROM orders WHERE placed > '2026-01-02Z' ORDER BY placed;
MOVE FORWARD 5 IN by_time;
SELECT results_eq('FETCH BACKWARD 2 FROM by_time', 'VALUES (148), (147)', 'a cursor goes back');

SELECT * FROM finish();
ROLLBACK;
