--
-- Upgrades of the extension give what a new installation has
--
SET client_min_messages = warning;
DROP DATABASE IF EXISTS harmonia_upgrade;
CREATE DATABASE harmonia_upgrade;
\c harmonia_upgrade
CREATE VIEW objects AS
	SELECT pg_describe_object(classid, objid, 0) AS object,
		CASE classid
			WHEN 'pg_proc'::regclass THEN pg_get_functiondef(objid) ||
				(SELECT coalesce(proacl::text, '') FROM pg_proc WHERE oid = objid)
			WHEN 'pg_class'::regclass THEN pg_get_viewdef(objid)
		END AS definition
	FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'harmonia');

CREATE EXTENSION harmonia VERSION '0.1.0';
CREATE TABLE points AS SELECT i AS k FROM generate_series(1, 1000) i;
CREATE INDEX points_k ON points USING harmonia (k);
ALTER EXTENSION harmonia UPDATE;
SELECT extversion FROM pg_extension WHERE extname = 'harmonia';
SELECT harmonia_check('points_k', true);
SELECT key_bits, tid_bytes FROM harmonia_segments('points_k') s, harmonia_leaves('points_k', s.block);
CREATE TABLE upgraded AS TABLE objects;

DROP EXTENSION harmonia CASCADE;
CREATE EXTENSION harmonia;
SELECT count(*) > 20 AS many FROM objects;
(TABLE objects EXCEPT TABLE upgraded) UNION ALL (TABLE upgraded EXCEPT TABLE objects);

\c regression
DROP DATABASE harmonia_upgrade;
