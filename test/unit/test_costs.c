/*
 * test_costs.c
 *		The choice between the CPU and the device: a simulation of clients that search batch after
 *		batch, beside writers, on a machine with a few processors and one device.
 *
 * The same clients run with all batches on the CPU, with all on the device, and as
 * hm_costs_choose() has it.  That must be as good as the better of the two.
 */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/device/costs.h"

#define MAX_CLIENTS 64
#define NEVER 1e300

/* The least share of the better side's throughput. */
#define LEAST_SHARE 0.95

typedef enum Policy
{
	ALL_ON_CPU,
	ALL_ON_DEVICE,
	CHOSEN
} Policy;

/* What is simulated.  Times are in ns. */
typedef struct World
{
	int processors;
	int clients;
	int writers;
	uint32_t keys;     /* of each batch */
	double think;      /* of a client between two batches */
	double cpu;        /* a batch on the CPU */
	double own;        /* a client's own work for a batch on the device */
	double busy;       /* the device's work */
	double lines_a_ns; /* that all writers change */
	double sync;       /* a re-sync without lines, and */
	double line;       /* for each one */
	bool held_up;      /* now and then something takes long */
	double late;       /* so long the device's daemon waits for a processor, now and then, if all
						* have work */
} World;

typedef enum Phase
{
	THINKS,
	SEARCHES, /* on the CPU */
	SYNCS,    /* waits for a re-sync */
	PREPARES, /* a request */
	ASKS      /* waits for its answer */
} Phase;

typedef struct Client
{
	Phase phase;
	double until;       /* the end of the phase; NEVER: waits for its turn */
	double began;       /* the phase */
	double service;     /* of the device, for this phase */
	double queued_sync; /* what other clients see of its batch */
	double queued;
	double walked;  /* how long the CPU takes */
	uint64_t lines; /* that its re-sync has taken */
	HmCostChoice choice;
	HmDeviceTimes times;
	double turn; /* when it began to wait for the device */
} Client;

static World world;
static Policy policy;
static double now;
static Client clients[MAX_CLIENTS];
static Client *served;   /* by the device, or NULL */
static double synced_at; /* time of the last re-sync */
static HmDeviceCosts costs;
static double first_left; /* that the device takes longer for its next batch */
static int done;
static int on_device;

/* A duration, which varies. */
static double
vary(double duration)
{
	double factor = 0.8 + 0.4 * rnd_below(1000) / 1000;

	if (world.held_up && rnd_below(300) == 0)
		factor *= 10;
	return duration * factor;
}

/* How many want a processor. */
static int
processors_wanted(void)
{
	int wanted = world.writers;

	for (int i = 0; i < world.clients; i++)
		wanted += clients[i].phase == THINKS || clients[i].phase == SEARCHES ||
				  clients[i].phase == PREPARES;
	return wanted;
}

/* The time that work takes on a processor that others want, too. */
static double
on_processor(double work)
{
	int wanted = processors_wanted();

	return vary(work) * (wanted > world.processors ? (double) wanted / world.processors : 1);
}

static uint64_t
lines_owed(void)
{
	return (uint64_t) ((now - synced_at) * world.lines_a_ns);
}

static void
enter(Client *client, Phase phase, double duration)
{
	client->phase = phase;
	client->began = now;
	client->until = now + duration;
}

static void
wait_for_device(Client *client, Phase phase, double service)
{
	enter(client, phase, 0);
	client->until = NEVER;
	client->turn = now;
	client->service = service;
}

static HmQueue
queue_before(const Client *client)
{
	HmQueue queue = {.lanes = 1};

	for (int i = 0; i < world.clients; i++)
	{
		if (&clients[i] == client || clients[i].queued == 0)
			continue;
		queue.sync += clients[i].queued_sync;
		queue.search += clients[i].queued;
		queue.searches++;
	}
	queue.lines = lines_owed();
	return queue;
}

/* The client has a batch. */
static void
begin_batch(Client *client)
{
	HmQueue queue = queue_before(client);

	memset(&client->times, 0, sizeof(client->times));
	if (policy == CHOSEN)
		client->choice = hm_costs_choose(&costs, world.keys, &queue, (uint32_t) (now / 1e6));
	else if (policy == ALL_ON_DEVICE)
		client->choice = hm_costs_forced(&costs, world.keys, &queue);
	else
		client->choice.on_device = false;
	if (!client->choice.on_device)
	{
		client->walked = on_processor(world.cpu);
		enter(client, SEARCHES, client->walked);
		return;
	}
	on_device++;
	client->queued_sync = client->choice.sync;
	client->queued = client->choice.busy + 1;
	client->times.expected_wait = client->choice.wait;
	client->times.reason = client->choice.reason;
	if (queue.lines > 0)
		wait_for_device(client, SYNCS, 0);
	else
		enter(client, PREPARES, on_processor(world.own));
}

/* The device begins to serve the client that has waited longest. */
static void
serve_next(void)
{
	Client *next = NULL;

	for (int i = 0; i < world.clients; i++)
	{
		if (clients[i].until == NEVER && (next == NULL || clients[i].turn < next->turn))
			next = &clients[i];
	}
	served = next;
	if (next == NULL)
		return;
	if (next->phase == SYNCS)
	{
		next->lines = lines_owed();
		synced_at = now;
		next->service = vary(world.sync + world.line * (double) next->lines);
	}
	if (next->phase == ASKS)
	{
		next->service += first_left;
		first_left = 0;
	}
	next->until = now + next->service;
	if (next->phase == ASKS && processors_wanted() >= world.processors - 2 && rnd_below(16) == 0)
		next->until += world.late;
}

/* A phase of a client ends. */
static void
end_phase(Client *client)
{
	uint32_t now_ms = (uint32_t) (now / 1e6);

	if (served == client)
		served = NULL;
	switch (client->phase)
	{
		case THINKS:
			begin_batch(client);
			return;
		case SEARCHES:
			hm_costs_note_cpu(&costs, world.keys, client->walked, now_ms);
			break;
		case SYNCS:
			client->times.sync = now - client->began;
			client->times.sync_waited = client->times.sync - client->service;
			client->times.lines = client->lines;
			client->queued_sync = 0;
			enter(client, PREPARES, on_processor(world.own));
			client->times.all = client->times.sync + client->until - now;
			return;
		case PREPARES:
			client->times.all = client->times.sync + now - client->began;
			wait_for_device(client, ASKS, vary(world.busy));
			return;
		case ASKS:
			client->times.asked = now - client->began;
			client->times.busy = client->service;
			client->times.all += client->times.asked;
			client->queued_sync = client->queued = 0;
			hm_costs_note_device(&costs, world.keys, &client->times, now_ms);
			break;
	}
	done++;
	enter(client, THINKS, on_processor(world.think));
}

/* Batches a second. */
static double
simulate(Policy with, int batches)
{
	int warm_up = batches / 4;
	double start = 0;

	policy = with;
	synced_at = now;
	done = on_device = 0;
	served = NULL;
	memset(clients, 0, sizeof(clients));
	for (int i = 0; i < world.clients; i++)
		enter(&clients[i], THINKS, vary(world.think) * i / world.clients);
	while (done < batches)
	{
		Client *next = &clients[0];

		for (int i = 1; i < world.clients; i++)
		{
			if (clients[i].until < next->until)
				next = &clients[i];
		}
		now = next->until;
		end_phase(next);
		if (served == NULL)
			serve_next();
		if (start == 0 && done >= warm_up)
		{
			start = now;
			on_device = 0;
		}
	}
	return (batches - warm_up) / ((now - start) / 1e9);
}

/*
 * What is simulated depends on chance.  If the choice is not good enough the first time, it has to
 * be so in two more rounds.  Returns whether there is another one, and counts the bad ones.
 */
static bool
another_round(int round, bool good, int *bad)
{
	*bad += !good;
	return *bad == 1 && round < 3;
}

/* Compare the three, beginning with nothing known. */
static void
compare(const char *name)
{
	int batches = 20000;
	int bad = 0;
	int round = 0;
	double cpu, device, chosen, share;

	do
	{
		memset(&costs, 0, sizeof(costs));
		cpu = simulate(ALL_ON_CPU, batches);
		device = simulate(ALL_ON_DEVICE, batches);
		chosen = simulate(CHOSEN, batches);
		share = chosen / (cpu > device ? cpu : device);
		if (getenv("COSTS_VERBOSE") != NULL)
			printf("# %-6s %2d clients %8u keys %d writers: CPU %9.1f device %9.1f chosen %9.1f "
				   "batches/s, %3.0f %%, %3d %% on the device\n",
				   name, world.clients, world.keys, world.writers, cpu, device, chosen, 100 * share,
				   100 * on_device / (batches - batches / 4));
	} while (another_round(++round, share >= LEAST_SHARE, &bad));
	expect(bad < 2,
		   "%s: %d clients, %u keys, %d writers: %.1f batches/s chosen, CPU %.1f, device %.1f",
		   name, world.clients, world.keys, world.writers, chosen, cpu, device);
}

/*
 * A machine of 16 processors, and a device that takes this long for each request, for each key, and
 * for a line of a re-sync.
 */
static World
make_world(int n_clients, uint32_t keys, int writers, double request, double key, double line)
{
	World result = {0};

	result.processors = 16;
	result.clients = n_clients;
	result.writers = writers;
	result.keys = keys;
	result.think = 200e3 + 100.0 * keys;
	result.cpu = 5e3 + (keys < 10000 ? 150.0 : 60.0) * keys;
	result.own = 20e3 + 8.0 * keys;
	result.busy = request + key * keys;
	result.lines_a_ns = writers * 10e3 / 1e9;
	result.sync = 60e3;
	result.line = line;
	result.held_up = true;
	return result;
}

static void
test_grid(const char *name, double request, double key, double line)
{
	static const uint32_t sizes[] = {300, 1000, 10000, 100000, 1000000, 10000000};
	static const int counts[] = {1, 4, 16};

	for (int writers = 0; writers <= 4; writers += 4)
	{
		for (int i = 0; i < 3; i++)
		{
			for (int j = 0; j < 6; j++)
			{
				world = make_world(counts[i], sizes[j], writers, request, key, line);
				compare(name);
			}
		}
	}
	report("%s: the choice is as good as the better side", name);
}

/* Writers that write so much that re-syncs take more time than the device saves. */
static void
test_bulk(void)
{
	for (int n = 1; n <= 4; n += 3)
	{
		world = make_world(n, 1000, 4, 40e3, 2, 250);
		world.lines_a_ns = 3e-3;
		compare("bulk");
	}
	report("bulk: the choice is as good as the better side");
}

/* Small batches that gain less on the device than the re-syncs take that each of them wants. */
static void
test_small(void)
{
	static const int counts[] = {1, 4, 16};

	for (int i = 0; i < 3; i++)
	{
		for (uint32_t keys = 300; keys <= 1000; keys += 700)
		{
			world = make_world(counts[i], keys, 4, 40e3, 20, 500);
			world.think = 20e3 + 20 * keys;
			world.cpu = 600.0 * keys;
			world.lines_a_ns = 1e-4;
			world.sync = 300e3;
			compare("small");
		}
	}
	report("small: the choice is as good as the better side");
}

/* What nobody has taught anything, with a first batch that takes far longer than others do. */
static void
test_cold(void)
{
	static const int counts[] = {1, 4, 16};

	for (int slow = 0; slow < 2; slow++)
	{
		for (int i = 0; i < 3; i++)
		{
			for (uint32_t keys = 300; keys <= 1000; keys += 700)
			{
				double cpu, device, chosen;

				world = make_world(counts[i], keys, 0, slow ? 400e3 : 15e3, slow ? 600 : 2, 250);
				world.think = 20e3 + 20 * keys;
				world.cpu = 300.0 * keys;
				cpu = simulate(ALL_ON_CPU, 10000);
				device = simulate(ALL_ON_DEVICE, 10000);
				memset(&costs, 0, sizeof(costs));
				if (rnd_below(2))
					simulate(ALL_ON_CPU, 100);
				first_left = 80e6;
				chosen = simulate(CHOSEN, 10000);
				expect(chosen >= LEAST_SHARE * (cpu > device ? cpu : device),
					   "%d clients, %u keys: %.1f batches/s chosen, CPU %.1f, device %.1f",
					   world.clients, keys, chosen, cpu, device);
			}
		}
	}
	report("cold: the choice is as good as the better side");
}

/* One client comes after many that were sent to the device, which was no good for them. */
static void
test_after_forced(void)
{
	World many = make_world(16, 300, 0, 60e3, 20, 250);
	World one = make_world(1, 1000, 0, 60e3, 20, 250);
	double device, chosen;

	many.think = one.think = 50e3;
	many.cpu = 300 * 500.0;
	one.cpu = 1000 * 500.0;
	world = one;
	device = simulate(ALL_ON_DEVICE, 10000);
	memset(&costs, 0, sizeof(costs));
	world = many;
	simulate(ALL_ON_CPU, 10000);
	simulate(ALL_ON_DEVICE, 80000);
	world = one;
	chosen = simulate(CHOSEN, 20000);
	expect(chosen >= LEAST_SHARE * device, "%.1f batches/s chosen, device %.1f", chosen, device);
	report("the choice follows when one client comes after many on the device");
}

/*
 * The number of batches of a million keys that go to the CPU after a loss, 180 ms each, before one
 * goes to the device, where it takes 40 ms after a re-sync of so many ms.
 */
static int
batches_after_loss(double sync_ms)
{
	HmQueue queue = {.lanes = 1, .lines = 100000};
	HmDeviceTimes times = {.all = 40e6, .asked = 20e6, .busy = 20e6, .reason = HM_COST_SOONER};
	int batches = 0;

	memset(&costs, 0, sizeof(costs));
	for (int i = 0; i < 20; i++)
	{
		hm_costs_note_device(&costs, 1000000, &times, 0);
		hm_costs_note_cpu(&costs, 1000000, 180e6, 0);
	}
	costs.line.value = (float) (sync_ms * 1e6 / queue.lines);
	costs.classes[hm_size_class(1000000)].gained = -2e9f;
	while (batches < 100 && !hm_costs_choose(&costs, 1000000, &queue, 2000).on_device)
		batches++;
	return batches;
}

/*
 * What was lost is forgotten soon where a re-sync takes longer than a batch on the CPU, but not
 * where it takes many times as long.
 */
static void
test_dear_sync(void)
{
	int batches = batches_after_loss(300);

	expect(batches <= 3, "%d batches until a re-sync of 300 ms", batches);
	batches = batches_after_loss(2000);
	expect(batches >= 50, "%d batches until a re-sync of 2000 ms", batches);
	report("losses and re-syncs that take longer than a batch");
}

/*
 * A session is connected once its batches have missed as much as that takes: not for a batch, and
 * not for a trial.
 */
static void
test_set_up(void)
{
	HmQueue queue = {.lanes = 1};
	HmDeviceTimes times = {.all = 60e3, .asked = 40e3, .busy = 20e3, .reason = HM_COST_SOONER};
	double missed = 0;
	int batches = 0;
	HmCostChoice choice;

	memset(&costs, 0, sizeof(costs));
	choice = hm_costs_choose(&costs, 300, &queue, 0);
	expect(hm_costs_set_up(&missed, &choice, 3e6), "not to learn");
	for (int i = 0; i < 20; i++)
	{
		hm_costs_note_device(&costs, 300, &times, 0);
		hm_costs_note_cpu(&costs, 300, 160e3, 0);
	}
	do
		choice = hm_costs_choose(&costs, 300, &queue, 0);
	while (++batches < 1000 && !(choice.on_device && hm_costs_set_up(&missed, &choice, 3e6)));
	expect(batches >= 28 && batches <= 33,
		   "for the batch number %d, each of which would save 100 us of 3 ms", batches);

	/* Where the CPU is sooner, nothing is missed; trials are others' business. */
	times.all = 300e3;
	for (int i = 0; i < 40; i++)
		hm_costs_note_device(&costs, 300, &times, 0);
	costs.classes[hm_size_class(300)].gained = 0;
	missed = 0;
	for (batches = 0; batches < 10000 && missed == 0; batches++)
	{
		choice = hm_costs_choose(&costs, 300, &queue, 0);
		expect(!choice.on_device || !hm_costs_set_up(&missed, &choice, 3e6), "set up for reason %d",
			   choice.reason);
	}
	expect(missed == 0, "%f ns are missed", missed);
	report("connections are set up for several batches");
}

/* Copies that could not be made are tried more rarely, and not for ever. */
static void
test_failures(void)
{
	memset(&costs, 0, sizeof(costs));
	expect(hm_costs_patience(&costs, 0) == 1, "at first");
	for (int i = 0; i < 20; i++)
		hm_costs_note_failure(&costs, 1000);
	expect(hm_costs_patience(&costs, 1000) == 64, "after many failures: %f",
		   hm_costs_patience(&costs, 1000));
	expect(hm_costs_patience(&costs, 601000) < 2, "ten minutes later: %f",
		   hm_costs_patience(&costs, 601000));
	report("what fails is tried more rarely");
}

/* A device that is fast as a rule, but often late on a machine whose processors all have work. */
static void
test_late(void)
{
	for (int keys = 300; keys <= 1000; keys += 700)
	{
		world = make_world(16, (uint32_t) keys, 0, 110e3, 20, 250);
		world.think = 60e3;
		world.cpu = 600.0 * keys;
		world.late = 40e6;
		compare("late");
	}
	report("late: the choice is as good as the better side");
}

/*
 * From one world to another, with what was learnt in the first one.  The first quarter does not
 * count.
 */
static void
test_change(const char *name, World from, World to, int batches)
{
	int bad = 0;
	int round = 0;
	double cpu, device, chosen;

	do
	{
		world = to;
		cpu = simulate(ALL_ON_CPU, batches);
		device = simulate(ALL_ON_DEVICE, batches);
		memset(&costs, 0, sizeof(costs));
		world = from;
		simulate(CHOSEN, batches);
		world = to;
		chosen = simulate(CHOSEN, batches);
	} while (another_round(++round, chosen >= LEAST_SHARE * (cpu > device ? cpu : device), &bad));
	expect(bad < 2, "%.1f batches/s chosen, CPU %.1f, device %.1f", chosen, cpu, device);
	report("the choice follows when %s", name);
}

static void
test_changes(void)
{
	World fast = make_world(1, 10000, 0, 40e3, 2, 250);
	World slow = make_world(1, 10000, 0, 40e3, 150, 250);
	World many = make_world(16, 10000, 0, 300e3, 20, 250);
	World one = make_world(1, 100000, 0, 40e3, 2, 250);
	World weak = fast;
	World slow_beside = make_world(1, 10000, 4, 40e3, 150, 500);
	World fast_beside = make_world(1, 10000, 4, 40e3, 2, 500);
	World slow_million = make_world(1, 1000000, 0, 40e3, 150, 250);
	World busy, quiet;
	World fast_million = make_world(1, 1000000, 0, 40e3, 2, 250);

	/* A CPU that is slower than the slow device. */
	weak.cpu = 3e6;
	test_change("the device gets slower", fast, slow, 20000);
	test_change("the device gets faster", slow, fast, 20000);
	test_change("the CPU gets faster", weak, slow, 20000);
	test_change("clients go", many, one, 20000);
	test_change("clients come", one, many, 20000);

	/* What the copy lacks grows faster than what may be spent on trials. */
	test_change("the device gets faster beside writers", slow_beside, fast_beside, 80000);

	/* Few trials are enough where each takes long. */
	slow_million.held_up = fast_million.held_up = false;
	test_change("the device gets faster for large batches", slow_million, fast_million, 800);

	/* Re-syncs that did not pay beside writers do without them. */
	quiet = busy = make_world(1, 300, 4, 40e3, 20, 10);
	quiet.cpu = busy.cpu = 180e3;
	busy.lines_a_ns = 1e-4;
	quiet.lines_a_ns = 0;
	quiet.sync = busy.sync = 300e3;
	test_change("writers end", busy, quiet, 40000);
}

/*
 * The daemon performs searches in pieces of 20 ms, but no search of an index in the middle of a
 * re-sync.
 */
static void
test_wait(void)
{
	HmQueue queue = {.lanes = 1};
	double alone;
	double one;

	memset(&costs, 0, sizeof(costs));
	alone = hm_costs_forced(&costs, 1000, &queue).wait;
	expect(alone == 0, "%f ns without others", alone);
	queue.search = 3e9;
	queue.searches = 2;
	expect(hm_costs_forced(&costs, 1000, &queue).wait <= 40e6,
		   "a small batch waits for two pieces at most");
	queue.sync = 1e9;
	expect(hm_costs_forced(&costs, 1000, &queue).wait >= 1e9, "it waits for a re-sync");
	report("waits for searches and re-syncs of others");

	queue = (HmQueue){.search = 8e6, .searches = 8, .lanes = 1};
	one = hm_costs_forced(&costs, 1000, &queue).wait;
	queue.lanes = 2;
	expect(one == 7.5e6 && hm_costs_forced(&costs, 1000, &queue).wait == 3.5e6,
		   "two lanes share searches");
	queue.lanes = 9;
	expect(hm_costs_forced(&costs, 1000, &queue).wait == 0, "a device is free");
	queue.sync = 1e9;
	expect(hm_costs_forced(&costs, 1000, &queue).wait == 1e9,
		   "each device takes part in a re-sync");
	report("waits with several lanes");
}

void
test_costs(void)
{
	test_wait();
	test_bulk();
	test_late();
	test_cold();
	test_dear_sync();
	test_set_up();
	test_failures();
	test_after_forced();
	test_small();
	test_changes();
	test_grid("fast", 40e3, 2, 250);
	test_grid("slow", 40e3, 150, 250);
	test_grid("busy", 300e3, 20, 500);
}
