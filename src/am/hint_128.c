/*
 * hint_128.c
 *		hint.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/hint.c"
