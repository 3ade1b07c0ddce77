/*
 * index.h
 *		An index that changes, and its copy in a daemon.
 */
#ifndef HARMONIA_TEST_INDEX_H
#define HARMONIA_TEST_INDEX_H

#include "client.h"
#include "model.h"

#define INDEX_MAX_LEAVES	300
#define INDEX_MAX_BLOCKS	400

typedef struct Index
{
	HpIndexName name;
	Model		model;
	uint32_t	fanout;
	uint32_t	leaf_count;
	HpLeaf	   *leaves;
	int		   *starts;			/* of the leaves: their first entries; one more */
	uint32_t	blocks;
	char	   *pages;

	/* What the copy has. */
	char	   *copied;
	uint32_t	blocks_copied;
	bool		leaves_copied;
	uint64_t	structure;
} Index;

/* Make one, with random names and content. */
extern Index make_index(Content content, HtWidth width);
extern void free_index(Index *index);

/* Insert, remove, split leaves. */
extern void change_index(Index *index);

/* A request about it. */
extern HpRequest about(const Index *index, HpOperation operation);

/*
 * Send a request; returns the status of its reply, or CONNECTION_ENDED.  reply can be
 * NULL.
 */
#define CONNECTION_ENDED	(-1)
extern int	ask_status(const Connection *connection, const HpRequest *request, HpReply *reply);

/*
 * Bring the copy up to date; returns the status of the last request.  The parts of it
 * are for tests that stop in between.
 */
extern int	sync_index(const Connection *connection, Index *index);
extern int	sync_begin(const Connection *connection, Index *index);
extern int	sync_blocks(const Connection *connection, Index *index);
extern int	sync_end(const Connection *connection, Index *index);

/* Search it for random keys or ranges, and expect to find what the model does. */
extern void search_index(const Connection *connection, const Index *index);

/* A search for one key, at the start of staging memory. */
extern HpRequest make_search(const Connection *connection, const Index *index, uint64_t key);

#endif							/* HARMONIA_TEST_INDEX_H */
