# Files that are compiled once for each width of keys (src/am/width.h): from X.c come X.o, for keys of 64
# bits and less, and X_128.o.  Included by the Makefile and by that of test/engine.
both_widths = \
	am/build/build am/build/buildscan am/build/buildsort \
	am/inspect/checkextents am/inspect/checkindex am/inspect/checkinner am/inspect/checkpage \
	am/inspect/checksegment am/inspect/inspectkeys am/inspect/segmentcopy \
	am/maintain/reorganize am/maintain/vacuum \
	am/scan/firstkeys am/scan/scan am/scan/scanread am/scan/spans am/scan/valuesort \
	am/store/directory am/store/directorychange am/store/leafshape am/store/reader am/store/segmentimage \
	am/write/deadentries am/write/growth am/write/hints am/write/insert am/write/insertrow \
	am/write/leafentries am/write/makeroom am/write/movement am/write/movementcopy am/write/movingflag \
	am/write/newsegment am/write/split am/write/splitpoint am/write/lockleaf \
	device/leaves lookup/btree_hints lookup/btree_last lookup/btree_route lookup/btree_values lookup/btree_walk lookup/key_order lookup/route lookup/walk lookup/walk_ahead lookup/walk_answer
