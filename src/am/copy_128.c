/*
 * copy_128.c
 *		copy.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/copy.c"
