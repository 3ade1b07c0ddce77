/*
 * checkindex_128.c
 *		checkindex.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/checkindex.c"
