/*
 * leaves.h
 *		The list of an index's leaves, as it is sent to the device (leaves.c).
 *
 * leaves.c is compiled once for each width of keys (am/width.h).  Bounds in these lists have 128
 * bits for all of them.
 */
#ifndef HARMONIA_DEVICE_LEAVES_H
#define HARMONIA_DEVICE_LEAVES_H

#include "am/format.h"
#include "am/width.h"
#include "device/protocol.h"

#if HM_KEYS != 64
#define hm_leaf_methods HT_KEYED(hm_leaf_methods)
#endif

typedef struct HmListedLeaf
{
	HtEntry128 low;
	BlockNumber block;
	uint64 stamp; /* of its segment */
} HmListedLeaf;

typedef struct HmLeafList
{
	uint32 count;
	uint32 room;
	HmListedLeaf *leaves; /* palloc'd, or NULL if room is 0 */
} HmLeafList;

/*
 * A leaf whose bounds the copy may not know, as its page says.  "note" finds them
 * on their pages: changes of structure mark these as a whole.
 */
typedef struct HmNotedLeaf
{
	HtEntry128 low;
	HtEntry128 high;
	bool has_high;
	BlockNumber block;
	BlockNumber segment; /* header of its segment, and */
	uint64 stamp;        /* that one's stamp */
	uint32 number;       /* in the order in which they were noted */
} HmNotedLeaf;

typedef struct HmNotedLeaves
{
	uint32 count;
	uint32 room;
	HmNotedLeaf *leaves; /* palloc'd, or NULL if room is 0 */
} HmNotedLeaves;

/* The index's directory, as it was read. */
typedef struct HmReadDirectory
{
	void *segments; /* palloc'd; of the index's width */
	int count;
} HmReadDirectory;

/* What can be done with leaves, for sync.c.  There is one of these for each width of keys. */
typedef struct HmLeafMethods
{
	/*
	 * List all leaves that hold keys, in order.  Replaces the list's content.  Returns
	 * false if the index has changed so much in the meantime that a segment was not found.
	 * The caller holds no buffer lock.
	 *
	 * Errors: index_corrupted.
	 */
	bool (*list)(Relation index, HtWidth width, HmLeafList *list);

	/* Note a page if it is a leaf that holds keys.  The caller holds the page's lock. */
	void (*note)(HmNotedLeaves *list, Buffer buffer);

	/*
	 * Read the directory.  The caller frees the segments.
	 *
	 * Errors: index_corrupted.
	 */
	void (*read_directory)(Relation index, HmReadDirectory *directory);

	/*
	 * Write those of the leaves that belong to segments of the directory to
	 * out[], which has room for all: in order, and each as it was noted last.  Others are left over
	 * from segments that are dead, or are not alive yet.  Returns their number, or -1 if they
	 * overlap, which is possible only if the leaves and the directory do not show one state.
	 */
	int64 (*write_new)(const HmNotedLeaves *list, const HmReadDirectory *directory, HpNewLeaf *out);
} HmLeafMethods;

/* For keys of at most 64 bits, and of 128. */
extern const HmLeafMethods hm_leaf_methods;
extern const HmLeafMethods hm_leaf_methods_128;

/* A bound as it is sent. */
static inline HpBound
hm_sent_bound(HtEntry128 bound)
{
	HpBound result = {{ht_key_word_128(bound.key, 0), ht_key_word_128(bound.key, 1)}, bound.tid};

	return result;
}

#endif /* HARMONIA_DEVICE_LEAVES_H */
