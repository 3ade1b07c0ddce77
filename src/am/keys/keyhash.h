/*
 * keyhash.h
 *		Keys of values that do not fit into 64 bits, or are passed by reference (keyhash.c,
 *		keyorder.c), for the list of types in keytypes.c.
 */
#ifndef HARMONIA_AM_KEYHASH_H
#define HARMONIA_AM_KEYHASH_H

#include "am/am.h"

/* HmKeyType.normalise of each type. */
extern HmKey hm_text_key(Datum value);
extern HmKey hm_name_key(Datum value);

/*
 * The same for ranges of strings, which sort as memcmp() does (keyorder.c); so many bits of the
 * keys are a hash.
 */
#define HM_C_HASH_BITS 40

extern HmKey hm_text_c_key(Datum value);
extern HmKey hm_name_c_key(Datum value);
extern HmKey hm_bpchar_key(Datum value);
extern HmKey hm_bytea_key(Datum value);
extern HmKey hm_bit_key(Datum value);
extern HmKey hm_uuid_key(Datum value);
extern HmKey hm_numeric_key(Datum value);
extern HmKey hm_interval_key(Datum value);
extern HmKey hm_inet_key(Datum value);
extern HmKey hm_timetz_key(Datum value);
extern HmKey hm_macaddr_key(Datum value);
extern HmKey hm_macaddr8_key(Datum value);

#endif /* HARMONIA_AM_KEYHASH_H */
