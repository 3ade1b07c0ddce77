/*
 * storage_128.c
 *		storage.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/storage.c"
