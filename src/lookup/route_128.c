/*
 * route_128.c
 *		route.c for keys of 128 bits.
 */
#define HM_KEYS 128
#include "route.c"
