-- An index on every supported type, with difficult keys.
\ir setup.inc
SELECT plan(14 * 6 + 8);

CREATE FUNCTION test_type(type text, keys text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	middle text := keys[1 + array_length(keys, 1) / 2];
	-- PostgreSQL turns "k = true" into "k", which only btree and hash indexes serve.
	equals text := CASE type WHEN 'boolean' THEN 'k = ANY (ARRAY[%L::boolean])' ELSE 'k = %L' END;
BEGIN
	EXECUTE format('CREATE TABLE t (k %s, n int GENERATED ALWAYS AS IDENTITY)', type);
	EXECUTE format('INSERT INTO t (k) SELECT unnest(%L::text[])::%s FROM generate_series(1, 50)', keys, type);
	INSERT INTO t (k) SELECT NULL FROM generate_series(1, 3);
	CREATE INDEX t_k ON t USING harmonia (k);
	RETURN QUERY SELECT served_by('t_k', format('SELECT * FROM t WHERE ' || equals, middle), type || ' =');
	RETURN QUERY SELECT served_by('t_k', format('SELECT * FROM t WHERE k >= %L', middle), type || ' >=');
	RETURN QUERY SELECT served_by('t_k', 'SELECT k FROM t ORDER BY k DESC NULLS FIRST', type || ' in order');
	DROP TABLE t;
END
$$;

SELECT test_type('boolean', '{f,t,f}');
SELECT test_type('"char"', '{a,z,A,~,0}');
SELECT test_type('smallint', '{-32768,32767,0,-1,1}');
SELECT test_type('integer', '{-2147483648,2147483647,0,-1,1}');
SELECT test_type('bigint', '{-9223372036854775808,9223372036854775807,4294967296,-1,0}');
SELECT test_type('oid', '{0,4294967295,2147483648,16384}');
SELECT test_type('date', '{-infinity,infinity,4714-11-24 BC,2000-01-01,1999-12-31}');
SELECT test_type('time', '{00:00,24:00,12:00:00.000001,12:00}');
SELECT test_type('timestamp', '{-infinity,infinity,2000-01-01 00:00,1999-12-31 23:59:59.999999}');
SELECT test_type('timestamptz', '{-infinity,infinity,2000-01-01 00:00Z,1999-12-31 23:59:59.999999Z}');
SELECT test_type('real', '{-infinity,infinity,nan,0,1e-45,-1e-45}');
SELECT test_type('double precision', '{-infinity,infinity,nan,0,5e-324,-5e-324}');
SELECT test_type('money', '{-92233720368547758.08,92233720368547758.07,0.01,-0.01,0}');

-- A domain is indexed like its base type.
CREATE DOMAIN positive AS int CHECK (value > 0);
SELECT test_type('positive', '{1,2147483647,42}');

-- Texts under collation C have ranges with text_c_ops, which also serve LIKE with a prefix.
CREATE TABLE orders AS SELECT ('ORD-' || lpad((i * 7919 % 10000)::text, 6, '0')) COLLATE "C" AS code, i AS n FROM generate_series(1, 5000) i;
CREATE INDEX orders_code ON orders USING harmonia (code text_c_ops);
ANALYZE orders;
SELECT served_by('orders_code', 'SELECT * FROM orders WHERE code = ''ORD-007919''', 'text_c_ops =');
SELECT served_by('orders_code', 'SELECT * FROM orders WHERE code BETWEEN ''ORD-0010'' AND ''ORD-0011''', 'text_c_ops BETWEEN');
SELECT served_by('orders_code', 'SELECT * FROM orders WHERE code > ''ORD-0099''', 'text_c_ops >');
SELECT served_by('orders_code', 'SELECT * FROM orders WHERE code LIKE ''ORD-001%''', 'text_c_ops LIKE');

SELECT * FROM finish();
ROLLBACK;
