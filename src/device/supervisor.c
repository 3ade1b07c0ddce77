/*
 * supervisor.c
 *		The background worker that keeps the daemon running.
 *
 * The daemon is a separate program, so that CUDA's memory and failures stay out of the
 * server.  It inherits one end of a connection and ends when the other end is closed,
 * however the supervisor ends.  If the daemon ends on its own, the supervisor starts it
 * again after a delay that doubles each time.  If there is no device, the supervisor
 * reports that once and waits for changed settings.
 *
 * A daemon can also hang: stopped, or in a driver that does not return.  When a backend
 * has waited for an answer for a moment, the supervisor pings the daemon.  Without an answer
 * to that the state becomes HM_DEVICE_HUNG, and backends use the CPU.  If the answer comes
 * late, the state becomes HM_DEVICE_UP again; otherwise the daemon is killed.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "device/shared.h"
#include "device/stats.h"

#define DAEMON "harmonia_gpud"

/*
 * The delay doubles up to this many times the first one, harmonia.device_restart_delay, but not
 * beyond LAST_DELAY_MS.
 */
#define LAST_DELAY_RATIO 60
#define LAST_DELAY_MS 60000

/* How long the daemon may take to get ready, and to end. */
#define START_TIMEOUT_MS 60000
#define END_TIMEOUT_MS 5000

/* How long the answer to a ping may take before the daemon hangs, and is killed. */
#define HUNG_MS 500
#define KILL_MS 5000

/* How often to look after a ping. */
#define PING_WAIT_MS 50

/* The daemon's process; 0 if it does not run. */
static pid_t daemon_pid = 0;
static int control = -1;
static int delay_ms;
static TimestampTz up_since;
static uint64 pinged = 0; /* when a ping was sent that has no answer, by hm_now_ms(); 0: none */
static HpReply ready;     /* what the daemon said when it was ready */

/* The settings of the last start or attempt to start. */
static int started_mode;
static char *started_devices = NULL;
static int started_memory;
static int started_host_memory;

extern PGDLLEXPORT void hm_supervisor_main(Datum argument);

static void
set_state(HmDeviceState state, const HpReply *reply, const char *text)
{
	HmDeviceInfo *info = &hm_device->info;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	info->state = state;
	info->pid = (int) daemon_pid;
	info->is_gpu = reply != NULL && reply->is_gpu;
	info->memory = reply != NULL ? reply->memory : 0;
	pg_atomic_write_u32(&hm_device->lanes, reply != NULL ? Max(reply->lanes, 1) : 1);
	info->since = GetCurrentTimestamp();
	if (state == HM_DEVICE_STARTING)
		info->starts++;
	strlcpy(info->text, text, sizeof(info->text));

	/* When the daemon ends, all copies are lost and need not be watched any more. */
	for (int i = 0; i < HM_DEVICE_SLOTS && daemon_pid == 0; i++)
	{
		if (hm_device->slots[i].users == 0)
			hm_slot_unwatch(&hm_device->slots[i]);
	}
	LWLockRelease(hm_device->lock);
}

/* Runs in the daemon's process, before it executes the daemon. */
static void
become_daemon(int connection)
{
	char path[MAXPGPATH];
	char device[32];
	char devices[128];
	char memory[32];
	char host_memory[32];
	char *arguments[] = {DAEMON, device, devices, memory, host_memory, NULL};
	sigset_t none;
	int null = open("/dev/null", O_RDWR);

	/* The postmaster signals process groups; the daemon must not get these signals. */
	setsid();
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	snprintf(path, sizeof(path), "%s/%s", pkglib_path, DAEMON);
	snprintf(device, sizeof(device), "--device=%s", started_mode == HM_GPU_HOST ? "host" : "cuda");
	snprintf(devices, sizeof(devices), "--devices=%s", started_devices);
	snprintf(memory, sizeof(memory), "--memory=%d", started_memory);
	snprintf(host_memory, sizeof(host_memory), "--host-memory=%d", started_host_memory);

	/*
	 * dup2() clears the close-on-exec flag.  The daemon closes all other descriptors.
	 */
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
	{
		if (connection == HP_CONTROL_FD)
			fcntl(connection, F_SETFD, 0);
		else if (dup2(connection, HP_CONTROL_FD) < 0)
			_exit(127);
		execv(path, arguments);
	}
	_exit(127);
}

/*
 * Wait until the control connection is readable.  Returns false if something else
 * happens first, or nothing within the timeout, in ms.
 */
static bool
wait_for_control(long timeout)
{
	int events = WaitLatchOrSocket(
		MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | WL_TIMEOUT | WL_SOCKET_READABLE, control,
		timeout, PG_WAIT_EXTENSION);

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return (events & WL_SOCKET_READABLE) != 0;
}

/*
 * Close the control connection, so that the daemon ends if it has not, and wait for its
 * end.  Sets *status as waitpid() does, or to 0 if there is no daemon.  The kernel may not let a
 * daemon end whose device hangs; it is not waited for then, so that the server can be stopped.
 */
static void
end_daemon(int *status)
{
	*status = 0;
	if (control >= 0)
	{
		close(control);
		ReleaseExternalFD();
	}
	control = -1;
	if (daemon_pid == 0)
		return;
	/* A daemon that may hang might not notice the end of the connection. */
	if (pinged != 0)
		kill(daemon_pid, SIGKILL);
	pinged = 0;
	for (int waited = 0; waitpid(daemon_pid, status, WNOHANG) == 0; waited += 10)
	{
		if (waited == END_TIMEOUT_MS)
			kill(daemon_pid, SIGKILL);
		if (waited == 2 * END_TIMEOUT_MS)
		{
			ereport(LOG, (errmsg("\"%s\" with PID %d does not end", DAEMON, (int) daemon_pid),
						  errdetail("It was killed, and may be stuck in a device's driver.")));
			*status = SIGKILL;
			break;
		}
		pg_usleep(10000);
	}
	daemon_pid = 0;
	unlink(HP_SOCKET);
}

static void
end_at_exit(int code, Datum argument)
{
	int status;

	hm_device->supervisor = NULL;
	end_daemon(&status);
	set_state(HM_DEVICE_OFF, NULL, "");
}

/* Fork the daemon.  Returns false on failure. */
static bool
fork_daemon(void)
{
	int ends[2];

	if (!AcquireExternalFD())
		return false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
	{
		ReleaseExternalFD();
		return false;
	}
	control = ends[0];
	pg_set_noblock(control);
	unlink(HP_SOCKET);
	fflush(NULL);
	daemon_pid = fork();
	if (daemon_pid == 0)
		become_daemon(ends[1]);
	close(ends[1]);
	if (daemon_pid < 0)
		daemon_pid = 0;
	return daemon_pid > 0;
}

/*
 * Wait for the daemon to report that it is ready, or an error.  Returns false if it
 * reports an error, or nothing; in the latter case the text is empty.
 */
static bool
receive_ready(HpReply *reply)
{
	TimestampTz start = GetCurrentTimestamp();

	memset(reply, 0, sizeof(*reply));
	while (!ShutdownRequestPending &&
		   !TimestampDifferenceExceeds(start, GetCurrentTimestamp(), START_TIMEOUT_MS))
	{
		ssize_t received;

		if (!wait_for_control(1000))
			continue;
		received = recv(control, reply, sizeof(*reply), MSG_DONTWAIT);
		if (received == sizeof(*reply))
		{
			reply->text[sizeof(reply->text) - 1] = '\0';
			return reply->status == HP_OK;
		}
		if (received >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			break;
	}
	reply->text[0] = '\0';
	return false;
}

/* The longest delay before the daemon is started again. */
static int
last_delay(void)
{
	return Min(hm_device_restart_delay * LAST_DELAY_RATIO, LAST_DELAY_MS);
}

/* Report why the daemon does not run. */
static void
report(int level, const char *reason)
{
	ereport(level, (errmsg("harmonia uses no GPU"), errdetail("%s", reason)));
}

/* Start the daemon and wait until it is ready.  Sets the state. */
static void
start_daemon(void)
{
	char path[MAXPGPATH];
	HpReply reply;
	int status;

	started_mode = hm_gpu_mode;
	if (started_devices != NULL)
		pfree(started_devices);
	started_devices = MemoryContextStrdup(TopMemoryContext, hm_gpu_devices);
	started_memory = hm_device_memory;
	started_host_memory = hm_device_host_memory;
	snprintf(path, sizeof(path), "%s/%s", pkglib_path, DAEMON);
	if (access(path, X_OK) != 0)
	{
		char *text = psprintf("The program \"%s\" is not installed.", DAEMON);

		report(started_mode == HM_GPU_AUTO ? LOG : WARNING, text);
		set_state(HM_DEVICE_ABSENT, NULL, text);
		pfree(text);
		return;
	}

	set_state(HM_DEVICE_STARTING, NULL, "");
	if (fork_daemon() && receive_ready(&reply))
	{
		ready = reply;
		set_state(HM_DEVICE_UP, &ready, ready.text);
		up_since = GetCurrentTimestamp();
		ereport(LOG, (errmsg("harmonia uses the device \"%s\"", reply.text)));
		return;
	}
	end_daemon(&status);
	if (ShutdownRequestPending)
		return;

	/*
	 * A message from the daemon means that there is no device, or a broken one.  With
	 * "auto" give up; with "on" or "host" a device is expected, so try again later.
	 */
	if (reply.text[0] != '\0' && started_mode == HM_GPU_AUTO)
	{
		report(LOG, reply.text);
		set_state(HM_DEVICE_ABSENT, NULL, reply.text);
		return;
	}
	if (reply.text[0] == '\0')
		snprintf(reply.text, sizeof(reply.text), "\"%s\" ended with wait status %d.", DAEMON,
				 status);
	if (delay_ms <= hm_device_restart_delay)
		report(WARNING, reply.text);
	set_state(HM_DEVICE_FAILED, NULL, reply.text);
}

/* The daemon has ended on its own, or hangs. */
static void
daemon_ended(bool hangs)
{
	int status;

	/* After a long run, start it again soon. */
	if (TimestampDifferenceExceeds(up_since, GetCurrentTimestamp(), last_delay()))
		delay_ms = hm_device_restart_delay;
	end_daemon(&status);
	set_state(HM_DEVICE_FAILED, NULL, hangs ? "The daemon did not answer." : "The daemon ended.");
	ereport(WARNING,
			(hangs ? errmsg("\"%s\" did not answer for %d ms and was killed", DAEMON, KILL_MS) :
					 errmsg("\"%s\" ended with wait status %d", DAEMON, status),
			 errdetail("Lookups continue on the CPU. The daemon will be started again in %d ms.",
					   delay_ms)));
}

void
hm_supervisor_suspect(void)
{
	Latch *latch = hm_device->supervisor;

	pg_atomic_write_u32(&hm_device->suspected, 1);
	if (latch != NULL)
		SetLatch(latch);
}

/* Receive the answer to a ping.  Returns false if the connection has ended. */
static bool
receive_answer(void)
{
	HpReply reply;
	ssize_t received = recv(control, &reply, sizeof(reply), MSG_DONTWAIT);

	if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return true;
	if (received != sizeof(reply))
		return false;
	pinged = 0;
	if (hm_device_state() == HM_DEVICE_HUNG)
	{
		set_state(HM_DEVICE_UP, &ready, ready.text);
		ereport(LOG, (errmsg("\"%s\" answers again", DAEMON)));
	}
	return true;
}

/* Watch the daemon while it runs: ping it if backends wait for it. */
static void
watch_daemon(void)
{
	uint64 now;

	if (pinged == 0 && pg_atomic_exchange_u32(&hm_device->suspected, 0) != 0 &&
		send(control, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		pinged = hm_now_ms();
	if (wait_for_control(pinged != 0 ? PING_WAIT_MS : 1000) && !receive_answer())
	{
		daemon_ended(false);
		return;
	}
	now = hm_now_ms();
	if (pinged == 0 || now - pinged < HUNG_MS)
		return;
	if (now - pinged >= KILL_MS)
		daemon_ended(true);
	else if (hm_device_state() == HM_DEVICE_UP)
	{
		set_state(HM_DEVICE_HUNG, &ready, "The daemon does not answer.");
		ereport(LOG, (errmsg("\"%s\" does not answer", DAEMON)));
	}
}

/* Do the current settings differ from those that the daemon was started with? */
static bool
settings_changed(void)
{
	return hm_gpu_mode != started_mode || strcmp(hm_gpu_devices, started_devices) != 0 ||
		   hm_device_memory != started_memory || hm_device_host_memory != started_host_memory;
}

/*
 * Sleep until the latch is set or the timeout, in ms, expires; a negative timeout never
 * expires.  Returns true after a timeout.
 */
static bool
sleep_for(long timeout)
{
	int events =
		WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout >= 0 ? WL_TIMEOUT : 0),
				  timeout, PG_WAIT_EXTENSION);

	if (events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return (events & WL_TIMEOUT) != 0;
}

/* Do one step, depending on the state. */
static void
supervise(void)
{
	switch (hm_device_state())
	{
		case HM_DEVICE_UP:
		case HM_DEVICE_HUNG:
			if (settings_changed())
			{
				int status;

				end_daemon(&status);
				set_state(HM_DEVICE_OFF, NULL, "");
			}
			else
				watch_daemon();
			break;

		case HM_DEVICE_FAILED:
			if (settings_changed())
				set_state(HM_DEVICE_OFF, NULL, "");
			else if (sleep_for(delay_ms))
			{
				delay_ms = Min(delay_ms * 2, last_delay());
				start_daemon();
			}
			break;

		case HM_DEVICE_ABSENT:
			if (settings_changed())
				set_state(HM_DEVICE_OFF, NULL, "");
			else
				sleep_for(-1);
			break;

		default:
			delay_ms = hm_device_restart_delay;
			if (hm_gpu_mode == HM_GPU_OFF)
				sleep_for(-1);
			else
				start_daemon();
			break;
	}
}

void
hm_supervisor_main(Datum argument)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(end_at_exit, (Datum) 0);
	hm_device->supervisor = MyLatch;
	set_state(HM_DEVICE_OFF, NULL, "");
	while (!ShutdownRequestPending)
	{
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		supervise();
	}
	proc_exit(0);
}

void
hm_supervisor_register(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "harmonia", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "hm_supervisor_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "harmonia supervisor", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "harmonia supervisor", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}
