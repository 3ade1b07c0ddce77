/*
 * reader.h
 *		Reading the inner nodes of a segment: towards the leaf of an entry, or all leaves in
 *		key order.
 *
 * All leaves that are found through inner nodes are found by a reader, for scans, inserts,
 * lookups, VACUUM, inspection and the device's list of leaves.  Verification (check*.c)
 * uses none: it judges a copy, and trusts no number on it.
 *
 * The caller holds the header's lock, in either mode, from hm_reader_begin() to
 * hm_reader_end().  That protects key pages and auxiliary nodes, which the reader pins but
 * does not lock: only a holder of the header's exclusive lock changes them.  Replay, too,
 * locks the header before them.
 */
#ifndef HARMONIA_READER_H
#define HARMONIA_READER_H

#include "am/format.h"

/* Reads a block and returns its buffer pinned, not locked: ReadBuffer(), or one like it. */
typedef Buffer (*HmPinFunction)(Relation index, BlockNumber block);

typedef struct HmReader
{
	Relation index;
	HtWidth width;
	Buffer header;
	HmSegment *segment;
	HmPinFunction pin;
	Buffer key_page; /* the one read last, or invalid */
	uint32 key_page_number;
	Buffer auxiliary_page; /* the same for auxiliary nodes */

	/* The leaf that hm_reader_next_leaf() returns next. */
	uint32 bottom; /* bottom node, counted from the first one */
	uint32 child;  /* of that node */
} HmReader;

/* A leaf, as inner nodes refer to it. */
typedef struct HmReaderLeaf
{
	HtEntry low;
	BlockNumber block;
	int64 number;          /* leaf number; -1 for an auxiliary node's child */
	BlockNumber auxiliary; /* block of that node, or InvalidBlockNumber */
} HmReaderLeaf;

/*
 * Begin to read a segment.  Checks its header.
 * Errors: index_corrupted.
 */
extern void hm_reader_begin(HmReader *reader, Relation index, Buffer header, HtWidth width,
							HmPinFunction pin);

/* Release the reader's pins, but not the header. */
extern void hm_reader_end(HmReader *reader);

/*
 * A node of the key region, in the layout that src/tree reads.  Valid until the next call
 * for this reader.
 * Errors: index_corrupted.
 */
extern const char *hm_reader_node(HmReader *reader, uint32 node);

/*
 * The auxiliary node of a bottom node, or NULL if it has none.  Valid until the next such
 * call for this reader.
 * Errors: index_corrupted.
 */
extern HmAuxiliary *hm_reader_auxiliary(HmReader *reader, uint32 node);

/*
 * Search a node: the number of the child in which an entry belongs or, if before is true, of
 * the child that holds the entry's predecessor.  If the node has a separator after that
 * child and upper is not NULL, sets *upper to it and *bounded to true.
 */
extern int hm_reader_search(const HmReader *reader, const char *node, HtEntry entry, bool before,
							HtEntry *upper, bool *bounded);

/*
 * The number of the bottom node that leads to an entry, or to its predecessor.  The other
 * arguments are those of hm_reader_search(), for all nodes on the way.
 * Errors: index_corrupted.
 */
extern uint32 hm_reader_bottom(HmReader *reader, HtEntry entry, bool before, HtEntry *upper,
							   bool *bounded);

/*
 * The block of a numbered leaf that is child i of a bottom node.
 * Errors: index_corrupted, if there is no such leaf.
 */
extern BlockNumber hm_reader_child(HmReader *reader, uint32 node, int i);

/*
 * The next leaf in key order, from the first one on.  Returns false after the last one.
 * Errors: index_corrupted.
 */
extern bool hm_reader_next_leaf(HmReader *reader, HmReaderLeaf *leaf);

#endif /* HARMONIA_READER_H */
