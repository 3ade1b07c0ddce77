/*
 * vacuum_128.c
 *		vacuum.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/vacuum.c"
