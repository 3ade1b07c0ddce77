/*
 * scan_128.c
 *		scan.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/scan.c"
