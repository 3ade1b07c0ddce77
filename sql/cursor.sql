-- Cursors that change direction.
CREATE TABLE cursor_test (k int);
CREATE INDEX cursor_test_k ON cursor_test USING harmonia (k);
INSERT INTO cursor_test SELECT generate_series(1, 10000);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

-- At both ends, without NULLs in the index and with NULLs.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM cursor_test ORDER BY k;
FETCH LAST c;
FETCH NEXT c;
FETCH PRIOR c;
FETCH FIRST c;
FETCH PRIOR c;
FETCH NEXT c;
COMMIT;
-- Back over what was read of a leaf in several parts.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM cursor_test ORDER BY k;
MOVE 50 c;
MOVE BACKWARD 45 c;
FETCH 1 c;
MOVE 94 c;
MOVE BACKWARD 90 c;
FETCH 1 c;
COMMIT;
INSERT INTO cursor_test SELECT NULL FROM generate_series(1, 1000);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM cursor_test ORDER BY k DESC;
FETCH LAST c;
FETCH NEXT c;
FETCH PRIOR c;
FETCH FIRST c;
FETCH PRIOR c;
FETCH NEXT c;
MOVE 998 c;
FETCH 2 c;
FETCH BACKWARD 2 c;
COMMIT;

-- In the middle of a range, at the boundary of two leaves and elsewhere.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM cursor_test WHERE k BETWEEN 2000 AND 4000 ORDER BY k;
FETCH LAST c;
FETCH NEXT c;
FETCH BACKWARD 2 c;
MOVE BACKWARD 1000 c;
FETCH 1 c;
FETCH BACKWARD 1 c;
FETCH FIRST c;
FETCH PRIOR c;
FETCH NEXT c;
COMMIT;
DROP TABLE cursor_test;
