/*
 * harmonia.c
 *		The module: what happens when the library is loaded.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "am/am.h"
#include "am/fault.h"
#include "exec/exec.h"
#include "foreign/foreign_join.h"
#ifndef HM_NO_DEVICE
#include "device/device.h"
#endif

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	hm_options_init();
	hm_statement_init();
	hm_truncate_init();
	hm_mover_init();
	hm_order_init();
	hm_exec_init();
	hm_foreign_init();
#ifndef HM_NO_DEVICE
	hm_device_init();
#endif
	hm_fault_init();
	MarkGUCPrefixReserved("harmonia");
}
