/*
 * grow_128.c
 *		grow.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/grow.c"
