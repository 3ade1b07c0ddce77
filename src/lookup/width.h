/*
 * width.h
 *		The names of this folder that exist once for each width of keys.
 *
 * am/width.h explains how files are compiled for a width.
 */
#ifndef HARMONIA_LOOKUP_WIDTH_H
#define HARMONIA_LOOKUP_WIDTH_H

#include "am/width.h"

#if HM_KEYS != 64
#define hm_route_make HT_KEYED(hm_route_make)
#define hm_walk_look_ahead HT_KEYED(hm_walk_look_ahead)
#define hm_walk_answer HT_KEYED(hm_walk_answer)
#define hm_walk_methods HT_KEYED(hm_walk_methods)
#endif

#endif /* HARMONIA_LOOKUP_WIDTH_H */
