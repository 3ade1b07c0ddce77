/*
 * test_wide.c
 *		Compares a device with a plain sorted array, for keys of 128 and 256 bits.
 *
 * usage: test_wide [host | cuda [SEED]]
 */
#include "../harmonia_device.h"
#include "../../src/tree/wide.h"
#include "../../test/unit/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES		20000
#define MAX_LEAVES		400
#define GUARD			UINT64_C(0xA5A5A5A5A5A5A5A5)
#define PINNED_SIZE		327680

typedef enum Content
{
	RANDOM_KEYS,
	TENANTS,					/* few high words, serial low ones */
	SERIAL,						/* leaves of 16 and 32 bits */
	FEW_KEYS,					/* runs of equal keys over several leaves */
	ENDS,						/* mostly the least and the greatest key */
	CONTENTS
} Content;

static const char *const content_names[CONTENTS] = {
	"random keys", "tenants", "serial keys", "few keys", "least and greatest keys"
};

static const int classes[] = {0, 16, 32, 64, 96, 128, 192, 256};

static HdDevice *device;
static HdKind kind = HD_HOST;

static int
compare_hits(const void *a, const void *b)
{
	const HtHit *x = a;
	const HtHit *y = b;

	if (x->probe != y->probe)
		return x->probe < y->probe ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

#define HT_KEYS 128
#include "test_wide_template.h"
#define HT_KEYS 256
#include "test_wide_template.h"

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "cuda") == 0)
		kind = HD_CUDA;
	tap_start(argc - 1, argv + 1);
	if (hd_device_open(kind, 0, &device) != HD_OK)
	{
		printf("Bail out! no device: %s\n", device == NULL ? "out of memory" : hd_device_error(device));
		return 1;
	}
	test_width_128();
	test_width_256();
	hd_device_close(device);
	return tap_finish();
}
