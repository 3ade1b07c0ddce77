-- Wait for autovacuum and other workers, so that VACUUM finds what the test expects. Included by
-- tests, into the schema that is current.
\set ECHO none

-- While a worker has a snapshot, for any table, dead rows may have to be kept. Its transaction has a lock before
-- the worker is in pg_stat_activity.
CREATE PROCEDURE settle() LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 1..6000 LOOP
		PERFORM pg_stat_clear_snapshot();
		IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'virtualxid' AND pid <> pg_backend_pid()
			AND pid NOT IN (SELECT a.pid FROM pg_stat_activity a WHERE datname <> current_database())) THEN
			RETURN;
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'other transactions do not end';
END $$;
\set vacuum 'CALL settle(); VACUUM'
\set ECHO all
