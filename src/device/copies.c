/*
 * copies.c
 *		Copies that this backend has brought up to date.
 *
 * A lookup that finds one of them unchanged needs no re-sync.  A re-sync costs two requests more,
 * and between them no other session's search of the index can begin.
 */
#include "postgres.h"

#include "compat.h"
#include "device/client.h"
#include "device/copies.h"
#include "device/watch.h"

/* The number of copies that are remembered. */
#define KNOWN_COPIES 16

static HmCopy known[KNOWN_COPIES];
static int known_count = 0;
static int known_next = 0; /* the one that is forgotten next */

void
hm_copy_name(Relation index, const HmMeta *meta, HpIndexName *name)
{
	name->build_id = meta->build_id;
	hm_index_file(index, &name->database, &name->tablespace, &name->relfilenode);
}

/* The number of the known copy with a name; known_count if there is none. */
static int
find_known(const HpIndexName *name)
{
	int i = 0;

	while (i < known_count && memcmp(&known[i].name, name, sizeof(*name)) != 0)
		i++;
	return i;
}

void
hm_copy_forget(const HpIndexName *name)
{
	int i = find_known(name);

	if (i == known_count)
		return;
	known[i] = known[--known_count];
	known_next = 0;
}

void
hm_copy_remember(const HmCopy *copy)
{
	int i = find_known(&copy->name);

	if (i == KNOWN_COPIES)
	{
		i = known_next;
		known_next = (i + 1) % KNOWN_COPIES;
	}
	else if (i == known_count)
		known_count++;
	known[i] = *copy;
}

void
hm_copy_recall(Relation index, HmCopy *copy)
{
	HpIndexName name = {0};
	Buffer buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);
	int i;

	hm_copy_name(index, hm_page_meta(BufferGetPage(buffer)), &name);
	UnlockReleaseBuffer(buffer);
	memset(copy, 0, sizeof(*copy));
	i = find_known(&name);
	if (i < known_count)
		*copy = known[i];

	/* Another backend may have made it larger meanwhile. */
	copy->memory = copy->host_memory = 0;
}

bool
hm_copy_is_current(Relation index, const HmCopy *copy)
{
	return copy->structure != 0 && hm_client_connect() &&
		   hm_watch_is_unmarked(index, &copy->name, copy->structure);
}
