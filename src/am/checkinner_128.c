/*
 * checkinner_128.c
 *		checkinner.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/checkinner.c"
