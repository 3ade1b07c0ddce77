-- What CREATE EXTENSION creates.
\ir setup.inc
SELECT plan(18);

SELECT has_extension('harmonia');
SELECT is((SELECT amtype FROM pg_am WHERE amname = 'harmonia'), 'i', 'harmonia is an index access method');
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'harmonia'), '0.2.0', 'version');

-- Each operator class is valid and the default of its type.
SELECT ok(
	EXISTS (SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
		WHERE amname = 'harmonia' AND opcname = expected AND opcintype = type::regtype
			AND opcdefault AND amvalidate(c.oid)),
	format('%s is the default operator class for %s', expected, type))
FROM (VALUES
	('bool_ops', 'bool'), ('char_ops', '"char"'), ('int2_ops', 'int2'), ('int4_ops', 'int4'),
	('int8_ops', 'int8'), ('oid_ops', 'oid'), ('date_ops', 'date'), ('time_ops', 'time'),
	('timestamp_ops', 'timestamp'), ('timestamptz_ops', 'timestamptz'),
	('float4_ops', 'float4'), ('float8_ops', 'float8'), ('money_ops', 'money'))
	AS t (expected, type);

-- What programs find in the catalogs.
CREATE TABLE orders (id int);
CREATE INDEX orders_id ON orders USING harmonia (id);
SELECT index_is_type('orders', 'orders_id', 'harmonia');
SELECT results_eq(
	$$SELECT name, pg_indexam_has_property(a.oid, name) FROM pg_am a,
		unnest('{can_order,can_unique,can_multi_col,can_exclude,can_include}'::text[]) name
		WHERE amname = 'harmonia' ORDER BY name$$,
	$$VALUES ('can_exclude', true), ('can_include', true), ('can_multi_col', true),
		('can_order', true), ('can_unique', false)$$,
	'what the access method can do');

SELECT * FROM finish();
ROLLBACK;
