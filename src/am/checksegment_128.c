/*
 * checksegment_128.c
 *		checksegment.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/checksegment.c"
