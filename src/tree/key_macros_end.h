/*
 * key_macros_end.h
 *		Undoes key_macros.h.
 */
#undef HT_KEYED_2
#undef HT_KEYED_1
#undef HT_KEYED
#undef HT_KEY
#undef HT_ENTRY
#undef HT_PROBE
#undef HT_SHAPE
#undef HT_SEARCH
#undef HT_PSA
#undef KEY_MAX
#undef HT_KEYS
