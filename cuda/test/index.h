/*
 * index.h
 *		An index that changes, and its copy in a daemon.
 */
#ifndef HARMONIA_TEST_INDEX_H
#define HARMONIA_TEST_INDEX_H

#include "client.h"
#include "model.h"

#define INDEX_MAX_LEAVES 300
#define INDEX_MAX_BLOCKS 400

typedef struct IndexLeaf
{
	HtEntry low; /* of the model */
	uint32_t block;
} IndexLeaf;

typedef struct Index
{
	HpIndexName name;
	Model model;
	uint32_t fanout;
	uint32_t leaf_count;
	IndexLeaf *leaves;
	int *starts; /* first entry of each leaf, and the end of the last */
	uint32_t blocks;
	char *pages;

	/* Content of the copy. */
	char *copied;
	uint32_t blocks_copied;
	bool leaves_copied;
	IndexLeaf *old_leaves; /* the list that was copied last */
	uint32_t old_leaf_count;
	uint64_t structure;
	uint64_t sync; /* number of the last one */
} Index;

/* Make an index with a random name and random content. */
extern Index make_index(Content content, HtWidth width);
extern void free_index(Index *index);

/* Insert, remove, split leaves. */
extern void change_index(Index *index);

/* Give all entries the same tid, above 0.  The keys must differ. */
extern void set_tids(Index *index, uint64_t tid);

/* A bound as it is sent, for an index of a width. */
extern HpBound bound_of(HtWidth width, HtEntry entry);

/* A request about the index. */
extern HpRequest about(const Index *index, HpOperation operation);

/*
 * Send a request.  Returns the status of its reply, or CONNECTION_ENDED. reply can be
 * NULL.
 */
#define CONNECTION_ENDED (-1)
extern int ask_status(const Connection *connection, const HpRequest *request, HpReply *reply);

/* The same with HP_SYNC_RESERVE, until there is room for all blocks. */
extern int ask_room(const Connection *connection, const HpRequest *request, HpReply *reply);

/* Make a copy of this many blocks, without leaves.  Returns the status of the last request. */
extern int make_copy(const Connection *client, uint32_t number, uint32_t blocks, HpReply *reply);

/* Whether the daemon has such a copy. */
extern bool has_copy(const Connection *client, uint32_t number);

/*
 * Bring the copy up to date.  Returns the status of the last request.  The other
 * functions are the steps of sync_index(), for tests that stop between them.
 */
extern int sync_index(const Connection *connection, Index *index);
extern int sync_begin(const Connection *connection, Index *index);
extern int sync_blocks(const Connection *connection, Index *index);
extern int sync_end(const Connection *connection, Index *index);

/* The daemon searches in small pieces: only those of one piece are in the order of heap blocks. */
extern bool search_pieces;

/* Search for random keys or ranges, and expect the model's hits. */
extern void search_index(const Connection *connection, const Index *index);

/* A request to search one key, which is put at the start of staging memory. */
extern HpRequest make_search(const Connection *connection, const Index *index, uint64_t key);

#endif /* HARMONIA_TEST_INDEX_H */
