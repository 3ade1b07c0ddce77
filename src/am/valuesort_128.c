/*
 * valuesort_128.c
 *		valuesort.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/valuesort.c"
