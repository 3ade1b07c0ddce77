/*
 * shape_128.c
 *		shape.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/shape.c"
