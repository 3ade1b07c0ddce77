/*
 * protocol.h
 *		What backends and the device daemon, harmonia_gpud, say to each other.
 *
 * Plain C without headers of PostgreSQL or CUDA: both sides include it.
 *
 * The daemon listens on a unix socket of type SOCK_SEQPACKET in the data directory.  A
 * client sends one request at a time, an HpRequest, and gets one HpReply for it, or the
 * end of the connection; and before that some with HP_WAITING, if he has to wait for
 * others.  Whoever breaks a rule loses the connection, and nothing else happens to
 * anybody.  Both run on one machine, from one build: bytes are in the machine's order, and
 * HP_VERSION tells builds apart.
 *
 * Keys, pages and hits travel through staging memory, which a client makes with
 * memfd_create(), seals against shrinking and hands over with HP_MAP.  It is the
 * client's while no request is under way, and the daemon's until the reply comes.  All
 * offsets are in bytes from its start and multiples of 64.
 *
 * The daemon keeps copies of indexes.  A copy is brought up to date between
 * HP_SYNC_BEGIN and HP_SYNC_END by one client at a time; other clients' requests about
 * the same index wait until it has ended, so no search meets a copy that is half up to
 * date.  Between them a client may but go on with the sync, HP_MAP other staging memory
 * or give up and HP_DROP the copy.  If its connection ends before HP_SYNC_END, or
 * anything fails between them, the copy is dropped.  A search finds all that was in the
 * copy at the last HP_SYNC_END before it, or what later ones brought.
 *
 * The supervisor's connection is descriptor HP_CONTROL_FD, which the daemon inherits.
 * The daemon sends one HpReply there once it listens, or says why it cannot, and ends
 * when that connection does.
 */
#ifndef HARMONIA_PROTOCOL_H
#define HARMONIA_PROTOCOL_H

#include <stdint.h>

#include "tree/tree.h"

#define HP_VERSION		3
#define HP_CONTROL_FD	3

/* Who waits for another client's sync is told so again and again. */
#define HP_WAITING_MS	5000

/*
 * Relative to the data directory, which is both sides' working directory.  Base backups
 * would warn of a socket elsewhere in there, but skip what is in this folder.
 */
#define HP_SOCKET		"pg_stat_tmp/harmonia_gpud.sock"

/* The part of a page that is copied at a time, and its number: block * 64 + place. */
#define HP_LINE_SIZE	128
#define HP_PAGE_LINES	(HT_PAGE_SIZE / HP_LINE_SIZE)

/* What is copied; a relfilenode can come back, with another build of an index. */
typedef struct HpIndexName
{
	uint64_t	build_id;
	uint32_t	database;
	uint32_t	tablespace;
	uint32_t	relfilenode;
	uint32_t	unused;			/* zero */
} HpIndexName;

typedef enum HpOperation
{
	HP_HELLO,					/* first of a connection: version, generation.
								 * Another generation than the last client's: the
								 * server has restarted, and all copies go */
	HP_MAP,						/* the next staging memory, in place of the
								 * last: its descriptor, size */
	HP_SYNC_BEGIN,				/* index, create, width, fanout */
	HP_SYNC_RESERVE,			/* count: the blocks that the copy has room for,
								 * at least; new ones are zeros */
	HP_SYNC_LINES,				/* count uint32_t numbers of lines at numbers_at,
								 * the lines themselves at data_at */
	HP_SYNC_PAGES,				/* count block numbers at numbers_at, pages at
								 * data_at; as for lines, none comes twice */
	HP_SYNC_LEAVES,				/* count HpLeaf at data_at: all of them, at most as
								 * many as there are blocks */
	HP_SYNC_END,				/* structure: kept for the next HP_SYNC_BEGIN */
	HP_SEARCH,					/* see HpSearch */
	HP_DROP,					/* index; no error if there is no copy */
	HP_OPERATIONS
} HpOperation;

typedef enum HpStatus
{
	HP_OK,
	HP_UNKNOWN,					/* there is no copy, and none was to be created */
	HP_NO_ROOM,					/* more hits than room: ask with more */
	HP_NO_MEMORY,				/* the device's memory, or what harmonia.device_memory
								 * allows, is too small; the copy is gone if this
								 * was a sync */
	HP_FAILED,					/* the device failed, or there is none; the daemon ends */
	HP_WAITING					/* not the reply: it comes when another client's sync
								 * has ended */
} HpStatus;

/* As HdLeaf of cuda/harmonia_device.h. */
typedef struct HpLeaf
{
	HtEntry		low;
	uint32_t	block;
	uint32_t	unused;			/* zero */
} HpLeaf;

/*
 * Keys are as wide as the index's, uint32_t or uint64_t.  Hits are pairs: at probes_at
 * the uint32_t numbers of probes, at tids_at the uint64_t tids, room of each; those of
 * one probe come one after the other, else they come in any order.  With tids_only nothing
 * is written at probes_at.
 */
typedef struct HpSearch
{
	uint64_t	low_at;
	uint64_t	high_at;		/* ranges */
	uint64_t	probes_at;
	uint64_t	tids_at;
	uint64_t	room;
	uint32_t	count;			/* of probes */
	uint32_t	is_range;
	uint32_t	distinct;		/* points that are equal count as one of them */
	uint32_t	tids_only;
} HpSearch;

typedef struct HpRequest
{
	uint32_t	operation;		/* HpOperation */
	uint32_t	count;
	HpIndexName index;			/* all but HP_HELLO and HP_MAP */
	uint64_t	generation;		/* HP_HELLO: random, of the server's shared memory */
	uint32_t	version;		/* HP_HELLO */
	uint32_t	create;			/* HP_SYNC_BEGIN: make a copy if there is none */
	uint32_t	width;			/* HP_SYNC_BEGIN: HtWidth */
	uint32_t	fanout;			/* HP_SYNC_BEGIN */
	uint64_t	size;			/* HP_MAP */
	uint64_t	numbers_at;
	uint64_t	data_at;
	uint64_t	structure;		/* HP_SYNC_END */
	HpSearch	search;
} HpRequest;

typedef struct HpReply
{
	uint32_t	status;			/* HpStatus */
	uint32_t	created;		/* HP_SYNC_BEGIN: the copy is new and has nothing */
	uint64_t	structure;		/* HP_SYNC_BEGIN: of the last HP_SYNC_END */
	uint64_t	hits;			/* HP_SEARCH: all there are */
	uint64_t	copy_memory;	/* bytes that this copy takes on the device */
	uint64_t	memory;			/* bytes of the device; 0 if unknown */
	uint64_t	memory_free;	/* when copies last took more or less */
	uint32_t	is_gpu;
	uint32_t	copies;			/* that the daemon keeps */
	uint64_t	evictions;		/* since it started */
	float		sort_ms;		/* HP_SEARCH: on the device */
	float		search_ms;
	char		text[128];		/* the device's name; or what is wrong */
} HpReply;

#endif							/* HARMONIA_PROTOCOL_H */
