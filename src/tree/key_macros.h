/*
 * key_macros.h
 *		Keys of the width HT_KEYS, for headers that are included once for each width.
 *
 * A template includes this at its beginning, and key_macros_end.h at its end.
 */
#define HT_KEYED_2(name, keys) name##_##keys
#define HT_KEYED_1(name, keys) HT_KEYED_2(name, keys)

#if HT_KEYS == 64
#define HT_KEYED(name) name
#define HT_KEY uint64_t
#define HT_ENTRY HtEntry
#define HT_PROBE HtProbe
#define HT_SHAPE HtLeafShape
#define HT_SEARCH HtSearch
#define HT_PSA HtPsa
#else
#define HT_KEYED(name) HT_KEYED_1(name, HT_KEYS)
#define HT_KEY HtKey128
#define HT_ENTRY HtEntry128
#define HT_PROBE HtProbe128
#define HT_SHAPE HtLeafShape128
#define HT_SEARCH HtSearch128
#define HT_PSA HtPsa128
#endif

#define KEY_MAX (~(HT_KEY) 0)
