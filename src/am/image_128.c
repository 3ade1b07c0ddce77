/*
 * image_128.c
 *		image.c for keys of 128 bits; see width.h.
 */
#define HM_KEYS 128
#include "am/image.c"
