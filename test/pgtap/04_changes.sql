-- The index follows changes of its table.
\ir setup.inc
SELECT plan(33);

CREATE TABLE stock (item int, amount int);
CREATE INDEX stock_item ON stock USING harmonia (item);

-- Empty
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item = 1', 'an empty table');

-- Single rows and many rows
INSERT INTO stock VALUES (1, 10);
INSERT INTO stock VALUES (3, 30), (2, 20), (NULL, 0);
INSERT INTO stock SELECT i * 7919 % 10007, i FROM generate_series(1, 5000) i;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item < 100', 'after INSERT');

UPDATE stock SET item = item + 20000 WHERE item BETWEEN 50 AND 99;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item BETWEEN 50 AND 99', 'the old keys after UPDATE');
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item > 20000', 'the new keys after UPDATE');

DELETE FROM stock WHERE item % 2 = 0;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item IN (1, 2, 3, 4)', 'after DELETE');

MERGE INTO stock USING generate_series(1, 200) key ON item = key
	WHEN MATCHED THEN UPDATE SET amount = -1
	WHEN NOT MATCHED THEN INSERT VALUES (key, -2);
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item <= 200', 'after MERGE');

-- An INSERT that reads its own table does not see its own rows.
INSERT INTO stock SELECT item + 100000, amount FROM stock WHERE item < 1000;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item > 100000', 'after INSERT from itself');

-- Savepoints
SAVEPOINT before;
INSERT INTO stock SELECT 777777, i FROM generate_series(1, 500) i;
ROLLBACK TO before;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item = 777777', 'after ROLLBACK TO');

-- Triggers see the entries of the statement that fired them.
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	CREATE TEMP TABLE counted AS SELECT count(*) FROM stock WHERE item = 555555;
	RETURN NULL;
END
$$;
CREATE TRIGGER counts AFTER INSERT ON stock EXECUTE FUNCTION counts();
INSERT INTO stock SELECT 555555, i FROM generate_series(1, 500) i;
SELECT results_eq('TABLE counted', 'VALUES (500::bigint)', 'an AFTER trigger finds all rows by the index');
DROP TRIGGER counts ON stock;

TRUNCATE stock;
INSERT INTO stock SELECT i, i FROM generate_series(1, 300) i;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item >= 290', 'after TRUNCATE');

REINDEX INDEX stock_item;
SELECT served_by('stock_item', 'SELECT * FROM stock WHERE item >= 290', 'after REINDEX');

-- Other kinds of tables
CREATE TEMP TABLE basket AS SELECT i AS item FROM generate_series(1, 1000) i;
CREATE INDEX basket_item ON basket USING harmonia (item);
SELECT served_by('basket_item', 'SELECT * FROM basket WHERE item < 10', 'temporary table');

CREATE TABLE sales (day date, item int) PARTITION BY RANGE (day);
CREATE TABLE sales_2026 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE INDEX sales_item ON sales USING harmonia (item);
CREATE TABLE sales_2027 PARTITION OF sales FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
INSERT INTO sales SELECT '2026-07-01'::date + i, i % 20 FROM generate_series(1, 500) i;
SELECT served_by('sales_2027_item_idx', 'SELECT * FROM sales WHERE item = 7', 'partitioned table');

-- Two columns
CREATE TABLE shelf (house int, item bigint, amount int);
CREATE INDEX shelf_house_item ON shelf USING harmonia (house, item);
INSERT INTO shelf SELECT i % 50, i, i FROM generate_series(1, 5000) i;
ANALYZE shelf;
UPDATE shelf SET item = NULL WHERE house = 7 AND item > 4000;
UPDATE shelf SET house = 8 WHERE house = 7 AND item < 1000;
DELETE FROM shelf WHERE house = 8 AND item % 3 = 0;
SELECT served_by('shelf_house_item', 'SELECT * FROM shelf WHERE house = 7 AND item IS NULL', 'two columns: NULL after UPDATE');
SELECT served_by('shelf_house_item', 'SELECT * FROM shelf WHERE house = 8 AND item IN (7, 8, 9, 107, 108)', 'two columns: the first one changed');
ALTER TABLE shelf ALTER item TYPE int;
SELECT served_by('shelf_house_item', 'SELECT * FROM shelf WHERE house = 8 AND item IN (7, 8, 9, 107, 108)', 'two columns: another type');
ALTER TABLE shelf RENAME item TO thing;
SELECT served_by('shelf_house_item', 'SELECT * FROM shelf WHERE house = 9 AND thing BETWEEN 100 AND 900', 'two columns: renamed');

SELECT * FROM finish();
ROLLBACK;
