/*
 * client.c
 *		A backend's connection to the daemon.
 *
 * The daemon answers requests in milliseconds.  Still, a waiting backend must react to
 * cancel requests, timeouts and the postmaster's death, so it waits for its latch as
 * well.  And it does not wait for a daemon that hangs (supervisor.c).  An error during the wait
 * leaves a request without its answer, or a copy that is only partly up to date.  The next use of
 * the connection, or the end of the transaction, notices this and closes the connection; the daemon
 * then drops the copy.
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

#include "compat.h"
#include "device/client.h"
#include "device/shared.h"
#include "device/stats.h"
#include "device/watch.h"

/* After this time without an answer the daemon is suspected to hang. */
#define SUSPECT_MS 100

/* No answer takes this long, even if the daemon is alive. */
#define ANSWER_TIMEOUT_MS 60000

/* The minimum size of staging memory. */
#define STAGING_MIN ((Size) 1024 * 1024)

/*
 * A session gives back more staging memory than this if it has not used it for
 * STAGING_IDLE_MS.
 */
#define STAGING_KEEP ((Size) 4 * 1024 * 1024)
#define STAGING_IDLE_MS 10000

static int connection = -1;
static uint64 connected_start; /* which start of the daemon it was connected after */
static WaitEventSet *wait_set = NULL;
static bool asking = false;  /* a request was sent and has not been answered */
static bool syncing = false; /* between HP_SYNC_BEGIN and its end */
static HpOperation posted;   /* the operation of the last hm_client_post() */
static bool patient = false; /* see hm_client_be_patient() */
static bool gave_up = false; /* the last request was not waited for */

/* What it has taken this backend to connect, and to get staging memory, in ns. */
static double setup_ns = 0;
static double first_setup_ns = 0; /* since the connection was made, until there is staging memory */

static char *staging = NULL;
static Size staging_size = 0;
static void *staging_owner = NULL;
static void (*staging_save)(void *owner) = NULL;
static uint64 staging_claim = 0;
static TimeoutId staging_timeout;
static volatile sig_atomic_t given_back = false; /* by give_staging_back() */

static HpReply reply;

static void
unmap_staging(void)
{
	if (staging != NULL)
		munmap(staging, staging_size);
	staging = NULL;
	staging_size = 0;
}

/* Have the owner of the content of staging memory save it, if there is an owner. */
static void
save_staging(void)
{
	if (staging_owner != NULL)
		staging_save(staging_owner);
	staging_owner = NULL;
}

/*
 * Timeout handler, which runs in a signal handler: no transaction has used the
 * connection for a while, and none is using it now.  The daemon unmaps the memory when it
 * sees the end of the connection.
 */
static void
give_staging_back(void)
{
	unmap_staging();
	shutdown(connection, SHUT_RDWR);
	given_back = true;
}

/* Close the connection, but keep the staging memory for its owner. */
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
	hm_watch_end();
}

void
hm_client_close(void)
{
	disconnect();
	if (staging_owner == NULL)
		unmap_staging();
}

/*
 * At the end of a transaction an unfinished request or sync has been abandoned, and
 * results in staging memory are no longer needed.
 */
static void
end_of_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	staging_owner = NULL;
	patient = false;
	if (asking || syncing)
		hm_client_close();

	/*
	 * Start the timeout.  It is not active if the connection was used in this
	 * transaction, nor after an error, which stops all timeouts.
	 */
	if (staging_size > STAGING_KEEP && !get_timeout_active(staging_timeout))
		enable_timeout_after(staging_timeout, STAGING_IDLE_MS);
}

/* The same when a subtransaction fails, but results outlive it. */
static void
end_of_subtransaction(SubXactEvent event, SubTransactionId subxact, SubTransactionId parent,
					  void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && (asking || syncing))
		hm_client_close();
}

/*
 * Send a request, and a descriptor unless that is negative.  Returns false on failure.
 */
static bool
send_request(HpRequest *request, int descriptor)
{
	struct iovec part = {request, sizeof(*request)};
	struct msghdr message = {0};
	char control[CMSG_SPACE(sizeof(int))] = {0};

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

	/* There is only one request at a time, so it always fits. */
	asking = true;
	return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*request);
}

/*
 * May a backend go on waiting that began at "start"?  *checked is when this was last found
 * out, or start.  Both are by hm_now_ms().
 */
static bool
may_wait(uint64 start, uint64 *checked)
{
	uint64 now = hm_now_ms();

	if (now - *checked < SUSPECT_MS)
		return true;
	*checked = now;
	if (hm_device_state() != HM_DEVICE_UP || now - start >= ANSWER_TIMEOUT_MS)
		return false;
	hm_supervisor_suspect();
	return true;
}

/* Wait for the reply.  Returns NULL if none comes. */
static const HpReply *
receive_reply(void)
{
	uint64 start = 0;
	uint64 checked = 0;

	for (;;)
	{
		ssize_t received = recv(connection, &reply, sizeof(reply), MSG_DONTWAIT);
		WaitEvent event;

		if (received == sizeof(reply) && reply.status == HP_WAITING)
		{
			gave_up = !patient && !hm_force_device && posted != HP_DROP;
			if (gave_up)
				return NULL;
			/* Other clients may load large copies: start the timeout again. */
			start = 0;
			continue;
		}
		if (received == sizeof(reply))
			break;
		if (received >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			return NULL;
		if (start == 0)
			start = checked = hm_now_ms();
		else if (!may_wait(start, &checked))
			return NULL;
		if (WaitEventSetWait(wait_set, SUSPECT_MS, &event, 1, PG_WAIT_EXTENSION) > 0 &&
			(event.events & WL_LATCH_SET))
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	asking = false;
	return &reply;
}

/* Send a request and wait for its reply.  Returns NULL on failure. */
static const HpReply *
exchange(HpRequest *request)
{
	return send_request(request, -1) ? receive_reply() : NULL;
}

/* Make a connected socket.  Returns -1 on failure. */
static int
connect_socket(void)
{
	struct sockaddr_un address = {0};
	int result = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

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

/*
 * Is another descriptor available? hm_create_wait_event_set() throws an error if there
 * is none.
 */
static bool
has_descriptor_left(void)
{
	int spare;

	if (!AcquireExternalFD())
		return false;
	spare = dup(connection);
	if (spare >= 0)
		close(spare);
	ReleaseExternalFD();
	return spare >= 0;
}

/* Connect to the daemon. */
static bool
connect_to_daemon(void)
{
	HpRequest request = {0};
	const HpReply *answer;

	/* The next daemon does not know the staging memory of the old connection. */
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

	/* If this throws an error, the connection is closed as after a missing answer. */
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

/* Add the time since a start to what this backend has spent. */
static void
note_setup(instr_time start)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	setup_ns += 1e9 * INSTR_TIME_GET_DOUBLE(now);
	first_setup_ns += 1e9 * INSTR_TIME_GET_DOUBLE(now);
}

/*
 * A backend is set up.  Its time counts a quarter in the mean of all; if two note theirs at once,
 * one of them counts.
 */
static void
note_setup_mean(double ns)
{
	uint64 mean = pg_atomic_read_u64(&hm_device->setup_ns);

	pg_atomic_write_u64(&hm_device->setup_ns,
						mean == 0 ? (uint64) ns : (uint64) (0.75 * (double) mean + 0.25 * ns));
}

bool
hm_client_connect(void)
{
	static bool registered = false;
	HmDeviceInfo info;
	instr_time start;
	bool connected;

	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		staging_timeout = RegisterTimeout(USER_TIMEOUT, give_staging_back);
		registered = true;
	}
	if (get_timeout_active(staging_timeout))
		disable_timeout(staging_timeout, false);

	/* An error may have been caught without the end of a subtransaction. */
	if (asking || syncing || given_back)
		hm_client_close();
	hm_device_info(&info);
	if (info.state != HM_DEVICE_UP)
		return false;

	/*
	 * A daemon that cannot be killed keeps its connections, and does not answer, though the next
	 * one is up.
	 */
	if (connection >= 0 && connected_start != info.starts)
		hm_client_close();
	if (connection >= 0)
		return true;

	connected_start = info.starts;
	INSTR_TIME_SET_CURRENT(start);
	first_setup_ns = 0;
	connected = connect_to_daemon();
	note_setup(start);
	return connected;
}

/* Make staging memory and have the daemon map it.  Returns false on failure. */
static bool
make_staging(Size size)
{
	HpRequest request = {0};
	const HpReply *answer;
	int descriptor;
	char *memory;
	bool sent;

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

	/* Once sent, the message keeps the memory open. */
	sent = send_request(&request, descriptor);
	close(descriptor);
	answer = sent ? receive_reply() : NULL;
	return answer != NULL && answer->status == HP_OK;
}

char *
hm_client_staging(Size size)
{
	Size rounded = STAGING_MIN;
	bool first = staging == NULL;
	instr_time start;
	bool made;

	Assert(size <= HM_STAGING_MAX && !asking);
	save_staging();
	if (connection < 0)
		return NULL;
	if (size <= staging_size)
		return staging;
	while (rounded < size)
		rounded *= 2;
	unmap_staging();
	INSTR_TIME_SET_CURRENT(start);
	made = make_staging(rounded);
	note_setup(start);
	if (!made)
	{
		hm_client_close();
		return NULL;
	}
	if (first)
		note_setup_mean(first_setup_ns);
	return staging;
}

double
hm_client_setup_ns(void)
{
	return setup_ns;
}

double
hm_client_setup_owed(void)
{
	return connection >= 0 && staging != NULL ? 0 :
												(double) pg_atomic_read_u64(&hm_device->setup_ns);
}

uint64
hm_client_claim(void *owner, void (*save)(void *owner))
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
	gave_up = false;
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

	/* The sync has ended, did not begin, or has failed and the copy is gone. */
	if (posted == HP_SYNC_END || posted == HP_DROP || answer->status != HP_OK)
		syncing = false;
	return answer;
}

bool
hm_client_gave_up(void)
{
	return gave_up;
}

void
hm_client_be_patient(void)
{
	patient = true;
}

const HpReply *
hm_client_ask(HpRequest *request)
{
	return hm_client_post(request) ? hm_client_answer() : NULL;
}
