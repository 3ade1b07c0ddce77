/*
 * buildscan_128.c
 *		buildscan.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/buildscan.c"
