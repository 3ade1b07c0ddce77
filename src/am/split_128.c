/*
 * split_128.c
 *		split.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/split.c"
