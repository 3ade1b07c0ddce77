/*
 * insert_128.c
 *		insert.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/insert.c"
