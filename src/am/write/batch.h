/*
 * batch.h
 *		What batch.c, the queue of a statement's index entries, and statement.c,
 *		which knows the statement, share.  Others use am.h.
 */
#ifndef HARMONIA_BATCH_H
#define HARMONIA_BATCH_H

/*
 * A scope surrounds a statement whose entries may be queued.  Executor and
 * utility calls inside it are nested and do not queue.
 */
#define HM_SCOPE_NONE	(-1)
#define HM_SCOPE_HERE	0		/* in the statement itself; above: nested */

typedef struct HmScope
{
	int			depth;
	SubTransactionId owner;		/* in which the last scope was opened */
	int			inserts;		/* made at once, before queueing starts */
} HmScope;

extern HmScope hm_scope;

/* The first insertion after the library was loaded asks for a scope by this. */
extern void hm_scope_open_late(void);

/* Give the queue's memory back, with all that is in it. */
extern void hm_batch_discard(void);

/* Install the hooks and callbacks, define the GUC; call once. */
extern void hm_statement_init(void);

#endif							/* HARMONIA_BATCH_H */
