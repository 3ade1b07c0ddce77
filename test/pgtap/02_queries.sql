-- Queries that an index serves.  Their answers do not depend on the index.
\ir setup.inc
SELECT plan(58);

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

-- Several columns
RESET enable_hashjoin;
CREATE TABLE lines (account bigint, id bigint, sku text);
INSERT INTO lines SELECT i % 20, i, 'sku ' || i % 30 FROM generate_series(1, 5000) i;
INSERT INTO lines VALUES (NULL, 1, 'sku 1'), (1, NULL, 'sku 1'), (1, 4294967297, 'sku 1');
CREATE INDEX lines_account_id ON lines USING harmonia (account, id);
CREATE INDEX lines_sku_account ON lines USING harmonia (sku, account);
ANALYZE lines;
SELECT served_by('lines_account_id', 'SELECT * FROM lines WHERE account = 1 AND id = 21', 'a row of an account');
SELECT served_by('lines_account_id', 'SELECT * FROM lines WHERE account = 1 AND id BETWEEN 1 AND 500', 'a range of an account');
SELECT served_by('lines_account_id', 'SELECT * FROM lines WHERE (account, id) IN ((1, 21), (2, 22), (2, 21))', 'a list of rows');
SELECT served_by('lines_account_id', 'SELECT * FROM lines WHERE account = 1 AND id IS NULL', 'NULL in the second column');
SELECT served_by('lines_sku_account', 'SELECT * FROM lines WHERE sku = ''sku 1'' AND account = 1', 'a text and a number');
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_nestloop = off;
SELECT served_by('lines_account_id', 'SELECT * FROM generate_series(1, 3000) i JOIN lines ON account = i % 20 AND id = i', 'a join on two columns');

SELECT * FROM finish();
ROLLBACK;
