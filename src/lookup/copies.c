/*
 * copies.c
 *		Copies that this backend has brought up to date.
 *
 * A lookup that finds one of them unchanged needs no re-sync.  A re-sync costs two requests more, and between
 * them no other session's search of the index can begin.
 */
#include "postgres.h"

#include "am/format.h"
#include "lookup/remote.h"

/* The number of copies that are remembered. */
#define KNOWN_COPIES		16

static HmCopy known[KNOWN_COPIES];
static int	known_count = 0;
static int	known_next = 0;		/* the one that is forgotten next */

void
hm_copy_name(Relation index, const HmMeta *meta, HpIndexName *name)
{
	name->build_id = meta->build_id;
	hm_index_file(index, &name->database, &name->tablespace, &name->relfilenode);
}

void
hm_copy_remember(const HmCopy *copy)
{
	int			i = 0;

	/* A partial copy's zones are exchanged in re-syncs, so these go on. */
	if (copy->zones != 0)
		return;
	while (i < known_count && memcmp(&known[i].name, &copy->name, sizeof(copy->name)) != 0)
		i++;
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
	Buffer		buffer = hm_meta_buffer(index, BUFFER_LOCK_SHARE);

	hm_copy_name(index, hm_page_meta(BufferGetPage(buffer)), &name);
	UnlockReleaseBuffer(buffer);
	memset(copy, 0, sizeof(*copy));
	for (int i = 0; i < known_count; i++)
	{
		if (memcmp(&known[i].name, &name, sizeof(name)) == 0)
			*copy = known[i];
	}

	/* Another backend may have made it larger meanwhile. */
	copy->memory = copy->host_memory = 0;
}

bool
hm_copy_is_current(Relation index, const HmCopy *copy)
{
	return copy->structure != 0 && hm_client_connect() &&
		hm_device_is_unmarked(index, &copy->name, copy->structure);
}
