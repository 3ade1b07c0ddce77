/*
 * inspectkeys_128.c
 *		inspectkeys.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/inspectkeys.c"
