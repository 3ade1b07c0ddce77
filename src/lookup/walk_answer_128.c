/*
 * walk_answer_128.c
 *		walk_answer.c for keys of 128 bits.
 */
#define HM_KEYS 128
#include "walk_answer.c"
