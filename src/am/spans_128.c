/*
 * spans_128.c
 *		spans.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/spans.c"
