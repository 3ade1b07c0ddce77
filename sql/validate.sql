--
-- Operator class validation
--

-- The extension's operator classes are valid and have all operators of btree's, or equality alone.
SELECT opcname, opcintype::regtype, opcdefault, amvalidate(c.oid)
FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
WHERE amname = 'harmonia'
ORDER BY opcname COLLATE "C";

SELECT opfname, count(*) AS operators
FROM pg_opfamily f JOIN pg_am a ON a.oid = opfmethod JOIN pg_amop ON amopfamily = f.oid
WHERE amname = 'harmonia'
GROUP BY opfname
ORDER BY opfname COLLATE "C";

SELECT b.amopopr::regoperator AS missing
FROM pg_amop b
WHERE b.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
	AND b.amoplefttype IN (SELECT opcintype FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'harmonia'))
	AND b.amoprighttype IN (SELECT opcintype FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'harmonia'))
	AND b.amopfamily IN (SELECT opcfamily FROM pg_opclass WHERE opcdefault AND opcmethod = b.amopmethod)
	AND NOT EXISTS (SELECT FROM pg_amop h
					WHERE h.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'harmonia')
						AND h.amopopr = b.amopopr AND h.amopstrategy = b.amopstrategy)
	AND (b.amopstrategy = 3
		OR EXISTS (SELECT FROM pg_amop h
				   WHERE h.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'harmonia')
						AND h.amoplefttype = b.amoplefttype AND h.amopstrategy = 1));

CREATE SCHEMA broken;
SET search_path = broken, public;

CREATE FUNCTION validate(name text) RETURNS boolean
LANGUAGE sql AS $$ SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = name $$;

-- a type that is not supported
CREATE OPERATOR CLASS jsonb_broken_ops FOR TYPE jsonb USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
SELECT validate('jsonb_broken_ops');
-- An index on a partitioned table is not built, but the planner looks at it.
CREATE TABLE not_built (j jsonb) PARTITION BY RANGE (j);
CREATE INDEX ON not_built USING harmonia (j jsonb_broken_ops);
SELECT count(*) FROM not_built;

-- a type whose keys have no order
CREATE OPERATOR CLASS bytea_broken_ops FOR TYPE bytea USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
SELECT validate('bytea_broken_ops');

-- texts have keys for ranges if the family has "less than", and then it has to have all operators
CREATE OPERATOR CLASS text_range_ops FOR TYPE text USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
SELECT validate('text_range_ops');
CREATE OPERATOR CLASS text_partial_ops FOR TYPE text USING harmonia AS
	OPERATOR 1 <, OPERATOR 3 =;
SELECT validate('text_partial_ops');
CREATE OPERATOR CLASS text_other_ops FOR TYPE text USING harmonia AS
	OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~;
SELECT validate('text_other_ops');

-- some operators missing, or all
CREATE OPERATOR CLASS partial_ops FOR TYPE int4 USING harmonia AS
	OPERATOR 1 <, OPERATOR 3 =;
SELECT validate('partial_ops');
CREATE OPERATOR CLASS empty_ops FOR TYPE int4 USING harmonia AS
	OPERATOR 1 < (int8, int8), OPERATOR 2 <= (int8, int8), OPERATOR 3 = (int8, int8),
	OPERATOR 4 >= (int8, int8), OPERATOR 5 > (int8, int8);
SELECT validate('empty_ops');
CREATE OPERATOR CLASS one_name_ops FOR TYPE name USING harmonia AS OPERATOR 3 = (text, text);
SELECT validate('one_name_ops');

-- some pairs of types missing
CREATE OPERATOR FAMILY cross_ops USING harmonia;
CREATE OPERATOR CLASS cross_int4_ops FOR TYPE int4 USING harmonia FAMILY cross_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
CREATE OPERATOR CLASS cross_int8_ops FOR TYPE int8 USING harmonia FAMILY cross_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
SELECT validate('cross_int4_ops');
ALTER OPERATOR FAMILY cross_ops USING harmonia ADD OPERATOR 1 < (int4, int8);
SELECT validate('cross_int8_ops');

-- operators with another order than the index
CREATE OPERATOR CLASS reverse_ops FOR TYPE int4 USING harmonia AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <;
SELECT validate('reverse_ops');

-- types that cannot be compared with each other
CREATE FUNCTION less(oid, float8) RETURNS boolean IMMUTABLE STRICT
LANGUAGE sql AS $$ SELECT $1::int8 < $2 $$;
CREATE OPERATOR <<< (FUNCTION = less, LEFTARG = oid, RIGHTARG = float8);
CREATE OPERATOR CLASS strange_ops FOR TYPE oid USING harmonia AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	OPERATOR 1 <<< (oid, float8);
SELECT validate('strange_ops');

-- what cannot be defined at all
CREATE OPERATOR CLASS six_ops FOR TYPE int4 USING harmonia AS OPERATOR 6 =;
CREATE OPERATOR CLASS order_ops FOR TYPE int4 USING harmonia AS
	OPERATOR 1 < FOR ORDER BY pg_catalog.integer_ops;
CREATE OPERATOR CLASS function_ops FOR TYPE int4 USING harmonia AS
	FUNCTION 1 btint4cmp(int4, int4);

SET client_min_messages = warning;
DROP SCHEMA broken CASCADE;
