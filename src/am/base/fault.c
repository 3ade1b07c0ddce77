/*
 * fault.c
 *		The parameters and actions of fault points; fault.h explains them.
 */
#include "postgres.h"

#include "am/fault.h"

#ifdef HM_FAULT_POINTS

#include "access/xlog.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "compat.h"

typedef enum HmFaultAction
{
	HM_FAULT_ERROR,
	HM_FAULT_PANIC,
	HM_FAULT_WAIT
} HmFaultAction;

/* What harmonia.fault says. */
typedef struct HmFault
{
	int point; /* HmFaultPoint, or -1 for none */
	HmFaultAction action;
	int skip;
	int times;
} HmFault;

#define HM_FAULT_NAME(name) #name,

static const char *const point_names[] = {HM_FAULT_LIST(HM_FAULT_NAME)};
static const char *const action_names[] = {"error", "panic", "wait"};

/* The point at which something happens, or -1. */
int hm_fault_chosen = -1;

static HmFault current = {-1, HM_FAULT_ERROR, 0, 1};

/* GUCs */
static char *fault_string = NULL;
static char *point_list = NULL;

static int
find_name(const char *const *names, int count, const char *name, size_t length)
{
	for (int i = 0; i < count; i++)
	{
		if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
			return i;
	}
	return -1;
}

/* Read the number after a colon.  Returns what follows it, or NULL if there is none. */
static const char *
parse_number(const char *colon, int *number)
{
	char *end;

	*number = strtol(colon + 1, &end, 10);
	return end > colon + 1 && *number >= 0 ? end : NULL;
}

static bool
parse_fault(const char *string, HmFault *fault)
{
	const char *action = strchr(string, ':');
	const char *rest;
	int number;

	fault->point = -1;
	fault->action = HM_FAULT_ERROR;
	fault->skip = 0;
	fault->times = 1;
	if (*string == '\0')
		return true;
	if (action == NULL)
		return false;
	fault->point = find_name(point_names, lengthof(point_names), string, action - string);
	if (fault->point < 0)
		return false;

	action++;
	rest = action + strcspn(action, ":");
	number = find_name(action_names, lengthof(action_names), action, rest - action);
	if (number < 0)
		return false;
	fault->action = (HmFaultAction) number;

	if (*rest == ':')
		rest = parse_number(rest, &fault->skip);
	if (rest != NULL && *rest == ':')
		rest = parse_number(rest, &fault->times);
	return rest != NULL && *rest == '\0' && fault->times > 0;
}

static bool
fault_check(char **value, void **extra, GucSource source)
{
	HmFault fault;

	if (!parse_fault(*value, &fault))
	{
		GUC_check_errdetail("It is a point's name, \"error\", \"panic\" or \"wait\", and how often "
							"the point is to be skipped and to be met.");
		GUC_check_errhint("harmonia.fault_points lists the points.");
		return false;
	}

	/* The server frees it. */
	*extra = hm_guc_malloc(sizeof(HmFault));
	if (*extra == NULL)
		return false;
	memcpy(*extra, &fault, sizeof(fault));
	return true;
}

static void
fault_assign(const char *value, void *extra)
{
	if (extra != NULL)
		current = *(HmFault *) extra;
	hm_fault_chosen = current.point;
}

/* Wait until no other session holds the advisory lock of the point's name. */
static void
wait_for_lock(const char *name)
{
	int64 key = (int32) DatumGetUInt32(hash_any((const unsigned char *) name, (int) strlen(name)));
	LOCKTAG tag;

	if (CritSectionCount > 0)
		elog(ERROR, "cannot wait at fault point \"%s\"", name);

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (key >> 32), (uint32) key, 1);
	if (InterruptHoldoffCount == 0)
		(void) LockAcquire(&tag, ShareLock, false, false);
	else
	{
		/*
		 * A buffer is locked, so that the server cannot wait for a heavyweight lock; look again and
		 * again.
		 */
		pgstat_report_wait_start(WAIT_EVENT_PG_SLEEP);
		while (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
			pg_usleep(1000);
		pgstat_report_wait_end();
	}
	LockRelease(&tag, ShareLock, false);
}

void
hm_fault_reached(HmFaultPoint point)
{
	const char *name = point_names[point];

	if (current.skip > 0)
	{
		current.skip--;
		return;
	}
	if (--current.times == 0)
		hm_fault_chosen = -1;

	switch (current.action)
	{
		case HM_FAULT_ERROR:
			elog(ERROR, "fault point \"%s\"", name);
			break;
		case HM_FAULT_PANIC:
			/*
			 * Flush WAL, because otherwise recovery would seldom see any of the work so
			 * far.
			 */
			XLogFlush(XactLastRecEnd);
			elog(PANIC, "fault point \"%s\"", name);
			break;
		case HM_FAULT_WAIT:
			wait_for_lock(name);
			break;
	}
}

void
hm_fault_init(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < (int) lengthof(point_names); i++)
		appendStringInfo(&names, "%s%s", i == 0 ? "" : " ", point_names[i]);

	DefineCustomStringVariable("harmonia.fault", "Makes the session fail or wait at a fault point.",
							   "The point's name, \"error\", \"panic\" or \"wait\", how often to "
							   "skip it and to meet it, with colons between.",
							   &fault_string, "", PGC_SUSET, 0, fault_check, fault_assign, NULL);
	DefineCustomStringVariable("harmonia.fault_points", "Shows the names of all fault points.",
							   NULL, &point_list, names.data, PGC_INTERNAL, 0, NULL, NULL, NULL);
	pfree(names.data);
}

#endif /* HM_FAULT_POINTS */
