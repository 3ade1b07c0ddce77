/*
 * reorganize_128.c
 *		reorganize.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/reorganize.c"
