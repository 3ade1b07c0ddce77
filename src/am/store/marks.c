/*
 * marks.c
 *		The hooks that are told what changes in indexes; empty at first.
 */
#include "postgres.h"

#include "am/marks.h"

HmMarkHooks hm_mark_hooks = {0};
