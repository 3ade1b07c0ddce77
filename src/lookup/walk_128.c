/*
 * walk_128.c
 *		walk.c for keys of 128 bits.
 */
#define HM_KEYS 128
#include "walk.c"
