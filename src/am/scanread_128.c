/*
 * scanread_128.c
 *		scanread.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/scanread.c"
