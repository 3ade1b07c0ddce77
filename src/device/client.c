/*
 * client.c
 *		A backend's connection to the daemon.
 *
 * Requests are answered in milliseconds, but a backend that waits must still hear of
 * cancels, timeouts and the postmaster's death: it waits for its latch as well.  An error on
 * the way leaves a request without its answer, or a copy half up to date.  The next who
 * wants the connection, or the end of the transaction, finds it so and closes it, and
 * with the connection the daemon drops the copy.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "device/shared.h"

/* A daemon that has not answered for so long hangs; it is left alone for as long. */
#define ANSWER_TIMEOUT_MS	60000

/* Staging memory is made no smaller than that. */
#define STAGING_MIN			((Size) 1024 * 1024)

/* More than that is given back by a session that has not used it for so long. */
#define STAGING_KEEP		((Size) 4 * 1024 * 1024)
#define STAGING_IDLE_MS		10000

static int	connection = -1;
static WaitEventSet *wait_set = NULL;
static bool asking = false;		/* a request has been sent and not been answered */
static bool syncing = false;	/* between HP_SYNC_BEGIN and its end */
static HpOperation posted;		/* what was asked for last by hm_client_post() */

static char *staging = NULL;
static Size staging_size = 0;
static void *staging_owner = NULL;
static void (*staging_save) (void *owner) = NULL;
static uint64 staging_claim = 0;
static TimeoutId staging_timeout;
static volatile sig_atomic_t given_back = false;	/* by give_staging_back() */

static TimestampTz hung = 0;		/* when it did not answer, or 0 */

static HpReply reply;

static void
unmap_staging(void)
{
	if (staging != NULL)
		munmap(staging, staging_size);
	staging = NULL;
	staging_size = 0;
}

/* Have the owner of what is in staging memory, if there is one, save it. */
static void
save_staging(void)
{
	if (staging_owner != NULL)
		staging_save(staging_owner);
	staging_owner = NULL;
}

/*
 * Signal handler: no transaction has used the connection for a while, nor does this one.
 * The daemon lets go of the memory when it sees the connection's end.
 */
static void
give_staging_back(void)
{
	unmap_staging();
	shutdown(connection, SHUT_RDWR);
	given_back = true;
}

/* Closes the connection but leaves the staging memory to its owner. */
static void
disconnect(void)
{
	given_back = false;
	if (connection < 0)
		return;
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
	close(connection);
	ReleaseExternalFD();
	connection = -1;
	asking = syncing = false;
	hm_device_release();
}

void
hm_client_close(void)
{
	disconnect();
	if (staging_owner == NULL)
		unmap_staging();
}

/* The end of a transaction: whatever was going on was given up, and so are results. */
static void
end_of_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	staging_owner = NULL;
	if (asking || syncing)
		hm_client_close();

	/* Has it been used, the clock is not running; nor after an error, which stops all. */
	if (staging_size > STAGING_KEEP && !get_timeout_active(staging_timeout))
		enable_timeout_after(staging_timeout, STAGING_IDLE_MS);
}

/* The same at the end of a subtransaction that failed; results outlive it. */
static void
end_of_subtransaction(SubXactEvent event, SubTransactionId subxact,
					  SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && (asking || syncing))
		hm_client_close();
}

/* Send a request, with a descriptor if that is not negative; false if that fails. */
static bool
send_request(HpRequest *request, int descriptor)
{
	struct iovec part = {request, sizeof(*request)};
	struct msghdr message = {0};
	char		control[CMSG_SPACE(sizeof(int))] = {0};

	message.msg_iov = &part;
	message.msg_iovlen = 1;
	if (descriptor >= 0)
	{
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
	}

	/* One request at a time: there is always room for it. */
	asking = true;
	return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*request);
}

/* Wait for the reply; NULL if none comes. */
static const HpReply *
receive_reply(void)
{
	TimestampTz start = 0;

	for (;;)
	{
		ssize_t		received = recv(connection, &reply, sizeof(reply), MSG_DONTWAIT);
		WaitEvent	event;

		if (received == sizeof(reply) && reply.status == HP_WAITING)
		{
			/* Others may load large copies: the time begins anew. */
			start = 0;
			continue;
		}
		if (received == sizeof(reply))
			break;
		if (received >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			return NULL;
		if (start == 0)
			start = GetCurrentTimestamp();
		else if (TimestampDifferenceExceeds(start, GetCurrentTimestamp(), ANSWER_TIMEOUT_MS))
		{
			hung = GetCurrentTimestamp();
			return NULL;
		}
		if (WaitEventSetWait(wait_set, 1000, &event, 1, PG_WAIT_EXTENSION) > 0 &&
			(event.events & WL_LATCH_SET))
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	asking = false;
	return &reply;
}

/* A request and its reply; NULL if either fails. */
static const HpReply *
exchange(HpRequest *request)
{
	return send_request(request, -1) ? receive_reply() : NULL;
}

/* Make a socket that is connected; -1 if that fails. */
static int
connect_socket(void)
{
	struct sockaddr_un address = {0};
	int			result = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (result < 0)
		return -1;
	address.sun_family = AF_UNIX;
	strlcpy(address.sun_path, HP_SOCKET, sizeof(address.sun_path));
	if (connect(result, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		close(result);
		return -1;
	}
	return result;
}

/* Whether one more descriptor can be had: a set of wait events is an error without. */
static bool
has_descriptor_left(void)
{
	int			spare;

	if (!AcquireExternalFD())
		return false;
	spare = dup(connection);
	if (spare >= 0)
		close(spare);
	ReleaseExternalFD();
	return spare >= 0;
}

bool
hm_client_connect(void)
{
	static bool registered = false;
	HpRequest	request = {0};
	const HpReply *answer;

	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		staging_timeout = RegisterTimeout(USER_TIMEOUT, give_staging_back);
		registered = true;
	}
	if (get_timeout_active(staging_timeout))
		disable_timeout(staging_timeout, false);

	/* Left by an error that was caught without the end of a subtransaction. */
	if (asking || syncing || given_back)
		hm_client_close();
	if (connection >= 0)
		return true;
	if (hung != 0 && !TimestampDifferenceExceeds(hung, GetCurrentTimestamp(), ANSWER_TIMEOUT_MS))
		return false;
	hung = 0;

	/* What the old connection's daemon knew as staging memory is unknown to the next one. */
	save_staging();
	unmap_staging();
	if (!AcquireExternalFD())
		return false;
	connection = connect_socket();
	if (connection < 0)
	{
		ReleaseExternalFD();
		return false;
	}
	if (!has_descriptor_left())
	{
		hm_client_close();
		return false;
	}

	/* Should this fail all the same, it is closed as if a request had not been answered. */
	asking = true;
	wait_set = hm_create_wait_event_set(3);
	AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(wait_set, WL_SOCKET_READABLE, connection, NULL, NULL);

	request.operation = HP_HELLO;
	request.version = HP_VERSION;
	request.generation = hm_device->generation;
	answer = exchange(&request);
	if (answer == NULL || answer->status != HP_OK)
	{
		hm_client_close();
		return false;
	}
	return true;
}

/* Make staging memory and have it mapped by the daemon. */
static bool
make_staging(Size size)
{
	HpRequest	request = {0};
	const HpReply *answer;
	int			descriptor;
	char	   *memory;
	bool		sent;

	descriptor = memfd_create("harmonia", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (descriptor < 0)
		return false;
	memory = MAP_FAILED;
	if (ftruncate(descriptor, (off_t) size) == 0 &&
		fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	if (memory == MAP_FAILED)
	{
		close(descriptor);
		return false;
	}
	staging = memory;
	staging_size = size;

	request.operation = HP_MAP;
	request.size = size;

	/* From here on the message holds it. */
	sent = send_request(&request, descriptor);
	close(descriptor);
	answer = sent ? receive_reply() : NULL;
	return answer != NULL && answer->status == HP_OK;
}

char *
hm_client_staging(Size size)
{
	Size		rounded = STAGING_MIN;

	Assert(size <= HM_STAGING_MAX && !asking);
	save_staging();
	if (connection < 0)
		return NULL;
	if (size <= staging_size)
		return staging;
	while (rounded < size)
		rounded *= 2;
	unmap_staging();
	if (!make_staging(rounded))
	{
		hm_client_close();
		return NULL;
	}
	return staging;
}

uint64
hm_client_claim(void *owner, void (*save) (void *owner))
{
	Assert(staging_owner == NULL);
	staging_owner = owner;
	staging_save = save;
	return ++staging_claim;
}

void
hm_client_give_up(uint64 claim)
{
	if (claim == staging_claim)
		staging_owner = NULL;
}

bool
hm_client_post(HpRequest *request)
{
	Assert(!asking);
	if (connection < 0)
		return false;
	if (request->operation == HP_SYNC_BEGIN)
		syncing = true;
	posted = (HpOperation) request->operation;
	if (!send_request(request, -1))
	{
		hm_client_close();
		return false;
	}
	return true;
}

const HpReply *
hm_client_answer(void)
{
	const HpReply *answer = receive_reply();

	if (answer == NULL || answer->status == HP_FAILED)
	{
		hm_client_close();
		return NULL;
	}

	/* A sync has ended, was not begun, or has failed and the copy is gone. */
	if (posted == HP_SYNC_END || posted == HP_DROP || answer->status != HP_OK)
		syncing = false;
	return answer;
}

const HpReply *
hm_client_ask(HpRequest *request)
{
	return hm_client_post(request) ? hm_client_answer() : NULL;
}
