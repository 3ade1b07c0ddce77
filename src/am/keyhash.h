/*
 * keyhash.h
 *		Keys of values that do not fit into 64 bits, or are passed by reference (keyhash.c),
 *		for the list of types in keys.c.
 */
#ifndef HARMONIA_AM_KEYHASH_H
#define HARMONIA_AM_KEYHASH_H

#include "postgres.h"

/* HmKeyType.normalise of each type. */
extern uint64 hm_text_key(Datum value);
extern uint64 hm_name_key(Datum value);
extern uint64 hm_bpchar_key(Datum value);
extern uint64 hm_bytea_key(Datum value);
extern uint64 hm_bit_key(Datum value);
extern uint64 hm_uuid_key(Datum value);
extern uint64 hm_numeric_key(Datum value);
extern uint64 hm_interval_key(Datum value);
extern uint64 hm_inet_key(Datum value);
extern uint64 hm_timetz_key(Datum value);
extern uint64 hm_macaddr_key(Datum value);
extern uint64 hm_macaddr8_key(Datum value);

#endif							/* HARMONIA_AM_KEYHASH_H */
