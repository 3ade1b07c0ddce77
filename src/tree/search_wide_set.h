/*
 * search_wide_set.h
 *		Instances of search_template.h for all classes of leaves with wide keys, for one
 *		instruction set.
 *
 * Included by search_wide.c alone, with ST_SET and ST_TARGET defined.  Both are undefined at
 * the end.
 */

#define HT_KEYS 128
#define ST_BITS 0
#include "search_template.h"
#define HT_KEYS 128
#define ST_BITS 16
#include "search_template.h"
#define HT_KEYS 128
#define ST_BITS 32
#include "search_template.h"
#define HT_KEYS 128
#define ST_BITS 64
#include "search_template.h"
#define HT_KEYS 128
#define ST_BITS 96
#include "search_template.h"
#define HT_KEYS 128
#define ST_BITS 128
#include "search_template.h"

#undef ST_SET
#undef ST_TARGET
