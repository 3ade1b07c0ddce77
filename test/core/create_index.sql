-- Makes an index of what a regression test says to btree, by the method that core.method names if that
-- takes it, else by btree.
CREATE PROCEDURE public.create_index(definition text) LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('core.method') <> 'btree' THEN
		BEGIN
			IF definition ~* '\musing\s+btree' THEN
				EXECUTE 'CREATE INDEX ' || regexp_replace(definition, '\mbtree\M', current_setting('core.method'), 'i');
			ELSE
				EXECUTE 'CREATE INDEX ' || regexp_replace(definition, '^([^(]*[^(\s])\s*\(',
														  '\1 USING ' || current_setting('core.method') || ' (');
			END IF;
			RETURN;
		EXCEPTION WHEN feature_not_supported OR undefined_object OR datatype_mismatch OR wrong_object_type OR
			invalid_parameter_value THEN
			NULL;
		END;
	END IF;
	EXECUTE 'CREATE INDEX ' || definition;
END $$;
