/*
 * cut_128.c
 *		cut.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/cut.c"
