-- Who may do what: the extension is for superusers to create, its functions are for
-- the owners of indexes, or for those to whom superusers grant them.
\ir setup.inc
SELECT plan(12);

SELECT is(string_agg(proname, ' ' ORDER BY proname),
	'harmonia_handler harmonia_progress harmonia_reorganize',
	'what everybody may call')
FROM pg_depend JOIN pg_proc p ON p.oid = objid
WHERE classid = 'pg_proc'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'harmonia')
	AND proname !~ '_(device|load|unload|stat_indexes)$' -- 07_device_privileges.sql
	AND EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0);

CREATE ROLE harmonia_owner;
CREATE ROLE harmonia_other;
DO $$ BEGIN
	EXECUTE format('GRANT CREATE ON DATABASE %I TO harmonia_owner', current_database());
END $$;
CREATE SCHEMA owned AUTHORIZATION harmonia_owner;
GRANT USAGE ON SCHEMA owned TO harmonia_other;

-- The owner of an index
SET ROLE harmonia_owner;
SELECT lives_ok('CREATE TABLE owned.t AS SELECT i AS k FROM generate_series(1, 1000) i');
SELECT lives_ok('CREATE INDEX t_k ON owned.t USING harmonia (k)', 'CREATE INDEX needs no further right');
SELECT lives_ok('SELECT harmonia_reorganize(''owned.t_k'')', 'the owner packs an index');
SELECT lives_ok('SELECT count(*) FROM pg_stat_progress_harmonia', 'everybody sees progress');
SELECT throws_ok('SELECT harmonia_check(''owned.t_k'')', '42501');
SELECT throws_ok('SELECT * FROM harmonia_index_info(''owned.t_k'')', '42501');
SELECT throws_ok('SELECT * FROM harmonia_page(''owned.t_k'', 0)', '42501', NULL,
	'pages show what row-level security hides');

-- Another role
SET ROLE harmonia_other;
SELECT throws_ok('SELECT harmonia_reorganize(''owned.t_k'')', '42501');

-- A role to which a function was granted
RESET ROLE;
GRANT EXECUTE ON FUNCTION harmonia_check(regclass, boolean) TO harmonia_other;
SET ROLE harmonia_other;
SELECT lives_ok('SELECT harmonia_check(''owned.t_k'', true)', 'a right that was granted');

-- Creating the extension: CREATE on the database is not enough, as it is not trusted.
RESET ROLE;
DROP EXTENSION harmonia CASCADE;
SET ROLE harmonia_owner;
SELECT throws_ok('CREATE EXTENSION harmonia', '42501');
SELECT hasnt_extension('harmonia');
RESET ROLE;

SELECT * FROM finish();
ROLLBACK;
