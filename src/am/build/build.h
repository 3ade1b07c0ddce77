/*
 * build.h
 *		Building an index.
 */
#ifndef HARMONIA_AM_BUILD_H
#define HARMONIA_AM_BUILD_H

#include "nodes/execnodes.h"

#include "am/store/store.h"

/* Phases of a build, for progress reports; phase 1, initializing, is the server's. */
#define HM_BUILD_PHASE_SCAN		2
#define HM_BUILD_PHASE_SORT		3
#define HM_BUILD_PHASE_MERGE	4
#define HM_BUILD_PHASE_WRITE	5

/* The routine ambuild, for one width of keys. */
extern IndexBuildResult *hm_build_index(Relation heap, Relation index, IndexInfo *info);

/* Also for keys of 128 bits; see HM_FOR_INDEX(). */
#if HM_KEYS == 64
HM_BOTH_WIDTHS(hm_build_index);
#endif

#endif							/* HARMONIA_AM_BUILD_H */
