/*
 * reader_128.c
 *		reader.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/reader.c"
