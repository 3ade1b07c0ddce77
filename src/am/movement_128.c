/*
 * movement_128.c
 *		movement.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/movement.c"
