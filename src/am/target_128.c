/*
 * target_128.c
 *		target.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/target.c"
