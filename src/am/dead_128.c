/*
 * dead_128.c
 *		dead.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/dead.c"
