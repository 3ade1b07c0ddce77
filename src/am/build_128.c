/*
 * build_128.c
 *		build.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/build.c"
