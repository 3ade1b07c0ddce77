/*
 * protocol.h
 *		The protocol between backends and the device daemon, harmonia_gpud.
 *
 * Plain C without headers of PostgreSQL or CUDA: both sides include it.
 *
 * The daemon listens on a unix socket of type SOCK_SEQPACKET in the data directory.  A
 * client sends one request at a time, an HpRequest.  It gets one HpReply for it, or the
 * connection ends.  If the request has to wait for other clients, replies with status
 * HP_WAITING come before that one.  The daemon closes the connection of a client that
 * breaks a rule; this affects no other client.  Both sides run on one machine and come
 * from one build: bytes are in the machine's order, and HP_VERSION tells builds apart.
 *
 * Keys, pages and hits travel through staging memory.  A client makes it with
 * memfd_create(), seals it against shrinking and hands it over with HP_MAP.  The client
 * may use it while no request is under way; during a request it belongs to the daemon.
 * All offsets are in bytes from its start, and are multiples of 64.
 *
 * The daemon keeps copies of indexes.  One client at a time brings a copy up to date,
 * between HP_SYNC_BEGIN and HP_SYNC_END.  Other clients' requests about the same index
 * wait for the end of this sync, so no search meets a copy that is only partly up to
 * date.  A client that sends nothing for HP_SYNC_IDLE_MS while others wait for the end of its
 * sync loses its connection.  During its sync a client may only continue with it, HP_MAP other
 * staging memory, or give up and HP_DROP the copy.  If its connection ends before HP_SYNC_END, or
 * any of the sync's requests fails, the copy is dropped.  A search finds everything that was in the
 * copy at the last HP_SYNC_END before it, or what later syncs brought.
 *
 * The supervisor's connection is descriptor HP_CONTROL_FD, which the daemon inherits.
 * The daemon sends one HpReply there once it listens, or to say why it cannot.  Then it
 * answers each byte, a ping, with an HpReply, also while it searches: a daemon that does not
 * answer hangs.  It ends when that connection ends.
 *
 * A request whose client has closed its connection is abandoned at once, whatever it is
 * doing.  A search that takes very long is abandoned, too, with HP_TOO_LONG.  Between pieces of a
 * long search, the daemon performs other clients' requests; only searches for distinct points are
 * not divided.
 */
#ifndef HARMONIA_PROTOCOL_H
#define HARMONIA_PROTOCOL_H

#include <stdint.h>

#include "tree/tree.h"

#define HP_VERSION 17
#define HP_CONTROL_FD 3

/* Clients that wait for another client's sync get HP_WAITING at this interval. */
#define HP_WAITING_MS 500

/* How long a client may pause in its sync while others wait for it. */
#define HP_SYNC_IDLE_MS 5000

/*
 * Relative to the data directory, which is both sides' working directory.  Base backups
 * skip this folder; elsewhere they would warn about a socket.
 */
#define HP_SOCKET "pg_stat_tmp/harmonia_gpud.sock"

/*
 * The unit in which parts of pages are copied.  Its number is block * 64 + index in the
 * block.
 */
#define HP_LINE_SIZE 128
#define HP_PAGE_LINES (HT_PAGE_SIZE / HP_LINE_SIZE)

/*
 * A copy has at most this many blocks, 64 GB: the largest staging memory has room for their list.
 */
#define HP_MAX_BLOCKS (1 << 23)

/*
 * Names a copied index.  The build_id distinguishes an index from an earlier one with
 * the same relfilenode.
 */
typedef struct HpIndexName
{
	uint64_t build_id;
	uint32_t database;
	uint32_t tablespace;
	uint32_t relfilenode;
	uint32_t unused; /* zero */
} HpIndexName;

typedef enum HpOperation
{
	HP_HELLO,           /* first of a connection: version, generation.  If the generation differs
						 * from the last client's, the server has restarted, and all copies are
						 * dropped */
	HP_MAP,             /* staging memory, replaces the previous one: its descriptor, size */
	HP_SYNC_BEGIN,      /* index, create, width, fanout */
	HP_SYNC_RESERVE,    /* count: the copy gets room for at least this many blocks, at most
						 * HP_MAX_BLOCKS, or, if that takes long, for more blocks than before: ask
						 * again.  New ones are zeros */
	HP_SYNC_LINES,      /* count uint32_t numbers of lines at numbers_at, the lines at data_at; no
						 * number twice */
	HP_SYNC_PAGES,      /* count uint32_t block numbers at numbers_at, pages at data_at; no number
						 * twice */
	HP_SYNC_LEAVES,     /* count HpLeaf at data_at: the whole list, at most as many as there are
						 * blocks */
	HP_SYNC_NEW_LEAVES, /* count HpNewLeaf at data_at, in key order: changes the list */
	HP_SYNC_END,        /* structure: returned by the next HP_SYNC_BEGIN */
	HP_SEARCH,          /* see HpSearch */
	HP_DROP,            /* index; no error if there is no copy */
	HP_OPERATIONS
} HpOperation;

typedef enum HpStatus
{
	HP_OK,
	HP_UNKNOWN,   /* there is no copy, and "create" was 0 */
	HP_NO_ROOM,   /* more hits than room: ask again with more */
	HP_NO_MEMORY, /* the copy does not fit into the device's memory, or what the settings allow; if
				   * this was a sync, the copy has been dropped */
	HP_TOO_LONG,  /* the search took too long, and has been abandoned */
	HP_FAILED,    /* the device failed, or there is none; the daemon ends */
	HP_WAITING    /* not the final reply: that comes when another client's sync has ended */
} HpStatus;

/* A bound of a leaf.  Keys of at most 64 bits have a second word of zeros. */
typedef struct HpBound
{
	uint64_t key[2]; /* the lowest word first */
	uint64_t tid;
} HpBound;

/* A leaf of the list. */
typedef struct HpLeaf
{
	HpBound low; /* no entry of the leaf is below this */
	uint32_t block;
	uint32_t unused; /* zero */
} HpLeaf;

/*
 * A leaf that the list does not have yet, or has with other bounds.  It takes
 * the place of all leaves that begin between its bounds.  The first leaf of an index has the
 * low bound (0, 0).  New leaves do not overlap, and there may not be more leaves than blocks.
 */
typedef struct HpNewLeaf
{
	HpBound low;
	HpBound high; /* above all entries of the leaf */
	uint32_t block;
	uint32_t is_last; /* 1: there is no high bound; 0 otherwise */
} HpNewLeaf;

/*
 * Keys are as wide as the index's: uint32_t, uint64_t, or 16 bytes with the lowest one first.  Hits
 * are pairs: uint32_t probe numbers at probes_at and uint64_t tids at tids_at, with "room" entries
 * each.  The hits of one probe are adjacent; otherwise the order is undefined.  With tids_only
 * nothing is written at probes_at.
 *
 * There can be a map of heap pages at map_at: a bit for each page, the lowest bit of a uint32_t
 * first.  Hits on a page whose bit is set are only counted.  Without tids_only they are counted
 * by probe: if there are hits, and not more than room, a uint32_t for each probe is written at
 * counts_at.  The hits of one probe are then not adjacent.  The daemon uses the map for this
 * search and keeps nothing of it.
 *
 * With with_keys, for ranges with neither tids_only nor a map, the key of each hit is written at
 * keys_at, as wide as the index's, for as many hits as there is room for.  (The key of a point's
 * hit is the point.)
 *
 * With by_block, which excludes tids_only, a map and keys, hits come in the order of heap blocks,
 * those of each piece of the search after those of the one before; those of one probe are then not
 * adjacent.
 */
typedef struct HpSearch
{
	uint64_t low_at;
	uint64_t high_at; /* ranges only */
	uint64_t probes_at;
	uint64_t tids_at;
	uint64_t room;
	uint32_t count; /* number of probes */
	uint32_t is_range;
	uint32_t distinct; /* equal points count as one */
	uint32_t tids_only;
	uint64_t map_at;
	uint32_t map_pages; /* 0: no map */
	uint32_t by_block;
	uint64_t counts_at; /* only with a map, without tids_only */
	uint64_t keys_at;   /* only with_keys */
	uint32_t with_keys;
	uint32_t unused; /* zero */
} HpSearch;

typedef struct HpRequest
{
	uint32_t operation; /* HpOperation */
	uint32_t count;
	HpIndexName index;   /* all but HP_HELLO and HP_MAP */
	uint64_t generation; /* HP_HELLO: random number of the server's shared memory */
	uint32_t version;    /* HP_HELLO */
	uint32_t create;     /* HP_SYNC_BEGIN: make a copy if there is none */
	uint32_t width;      /* HP_SYNC_BEGIN: HtWidth, of 32, 64 or 128 bits */
	uint32_t fanout;     /* HP_SYNC_BEGIN */
	uint64_t size;       /* HP_MAP */
	uint64_t numbers_at;
	uint64_t data_at;
	uint64_t structure; /* HP_SYNC_END */
	HpSearch search;
} HpRequest;

typedef struct HpReply
{
	uint32_t status;           /* HpStatus */
	uint32_t created;          /* HP_SYNC_BEGIN: the copy is new and empty */
	uint64_t structure;        /* HP_SYNC_BEGIN: of the last HP_SYNC_END */
	uint64_t sync;             /* HP_SYNC_BEGIN: greater than that of any sync before, of an earlier
								* daemon, too */
	uint32_t blocks;           /* that the copy has room for */
	uint32_t busy_us;          /* how long the daemon has worked on the request */
	uint64_t hits;             /* HP_SEARCH: the number of all hits */
	uint64_t counted;          /* HP_SEARCH, HP_OK: of these, how many have no tid at tids_at,
								* because the map counts them */
	uint64_t copy_memory;      /* of this copy on one device, in bytes */
	uint64_t copy_host_memory; /* of this, what is not on the device */
	uint64_t memory;           /* of the largest device, in bytes; 0 if unknown */
	uint64_t memory_free;      /* read when copies last grew or shrank */
	uint32_t is_gpu;
	uint32_t devices;   /* their number */
	uint32_t copies;    /* number of indexes with copies in the daemon */
	uint32_t lanes;     /* of all devices: how many searches are made at a time */
	uint64_t evictions; /* of an index's last copy, since the daemon started */
	uint64_t pinned;    /* staging memory of all clients that is pinned, in bytes */
	char text[128];     /* the devices' names, or the error */
} HpReply;

#endif /* HARMONIA_PROTOCOL_H */
