/*
 * directory_128.c
 *		directory.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/directory.c"
