/*
 * device.h
 *		The device: a guest that searches batches for lookups.
 *
 * This folder has everything about it on the server's side: which indexes have copies, what has
 * changed in them since, how copies are brought up to date, what a batch costs on either side, the
 * daemon's protocol, its supervisor, statistics, and SQL functions.  It depends on src/lookup,
 * whose table of methods it fills in (lookup/remote.h), and on src/am, whose writers it has mark
 * what they change (am/marks.h).  Nothing depends on it: this is all that it offers, and an
 * extension can be built without it ("make DEVICE=no").
 */
#ifndef HARMONIA_DEVICE_H
#define HARMONIA_DEVICE_H

/*
 * If the library is being preloaded, request shared memory, define the settings, have the
 * supervisor started, and let lookups know of the device.  Otherwise there is no device.  Called
 * once, from _PG_init.
 */
extern void hm_device_init(void);

#endif /* HARMONIA_DEVICE_H */
