/*
 * buildsort_128.c
 *		buildsort.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/buildsort.c"
