-- Who may do what with a device.  An extension that was built with DEVICE=no has none of this.
\ir setup.inc
SELECT to_regproc('harmonia_device') IS NOT NULL AS has_device \gset
\if :has_device
SELECT plan(4);

SELECT is(string_agg(proname, ' ' ORDER BY proname),
	'harmonia_device harmonia_load harmonia_stat_indexes harmonia_unload',
	'what everybody may call')
FROM pg_depend JOIN pg_proc p ON p.oid = objid
WHERE classid = 'pg_proc'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'harmonia')
	AND proname ~ '_(device|load|unload|stat_indexes|stat_reset)$'
	AND EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0);

CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 1000) i;
CREATE INDEX t_k ON t USING harmonia (k);
CREATE ROLE harmonia_other;
SET ROLE harmonia_other;
SELECT lives_ok('SELECT count(*) FROM pg_stat_harmonia', 'everybody sees statistics');
SELECT throws_ok('SELECT harmonia_stat_reset()', '42501');
SELECT throws_ok('SELECT harmonia_load(''t_k'')', NULL, NULL, 'others may not copy an index to a device');
\else
SELECT plan(1);
SELECT skip('built without the device', 1);
\endif

SELECT * FROM finish();
ROLLBACK;
