/*
 * movementcopy_128.c
 *		movementcopy.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/movementcopy.c"
