/*
 * mover.h
 *		Movement in the background (mover.c): a process that moves segments which have grown, so
 *		that inserts do not have to.
 */
#ifndef HARMONIA_MOVER_H
#define HARMONIA_MOVER_H

#include "utils/rel.h"

/*
 * Can another process move segments of this index?  Not if it is temporary, or if only this
 * transaction sees it, or if the user has said that inserts shall move (harmonia.background_movement).
 */
extern bool hm_mover_is_possible(Relation index);

/*
 * Ask a background worker to move those segments of an index that want it
 * (hm_segment_wants_movement()).  It may come late, or not at all if others keep the relation
 * locked.  Returns false if there is no room for a worker.  The caller holds no buffer lock.
 */
extern bool hm_mover_ask(Relation index);

#endif							/* HARMONIA_MOVER_H */
