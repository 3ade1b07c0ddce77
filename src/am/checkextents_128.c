/*
 * checkextents_128.c
 *		checkextents.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/checkextents.c"
