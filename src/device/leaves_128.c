/*
 * leaves_128.c
 *		leaves.c for keys of 128 bits.
 */
#define HM_KEYS 128
#include "leaves.c"
