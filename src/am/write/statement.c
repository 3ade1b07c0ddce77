/*
 * statement.c
 *		Which statements are batched, and when their batches are applied.
 *
 * A scope is what surrounds a statement whose index entries batch.c may queue:
 * one call of ExecutorRun for a plan that inserts or updates, or one COPY FROM.
 * Only the outermost such call opens one.  Executor and utility calls inside it
 * (triggers, functions) are nested: they insert at once and find the queue
 * empty.
 *
 * No reader misses a queued entry.  Rows of a statement are invisible to the
 * statement itself and, until commit, to other backends.  Any other code that can
 * see them first passes one of these points, and each applies the queue:
 *
 * - a scan of the index that begins or restarts (the access method sees to it);
 * - the start, a run or the end of a nested statement; every run counts, because a
 *	 statement that was suspended can see rows that were added since;
 * - a utility command;
 * - the end of the scope.  AFTER triggers and what ExecutorFinish runs to
 *	 completion come after the end of ExecutorRun.  Those of COPY fire inside
 *	 it, but what they run are nested statements.
 *
 * Hooks see only what begins after this library was loaded.  Unless something
 * has preloaded it, a backend's first statement loads it by its first insertion,
 * in the middle of its own execution, and such a statement is often the largest
 * of its session.  If that is a top-level statement, its scope is opened late.
 * The hooks that surround it are missing, so a late scope ends at the first of
 * these points: its entries are applied before any nested statement, any other
 * statement and the commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/copy.h"
#include "executor/executor.h"
#include "nodes/params.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/portal.h"

#include "am/write/insert.h"
#include "compat.h"

/*
 * A scope surrounds a statement whose entries may be queued.  Executor and
 * utility calls inside it are nested and do not queue.
 */
#define SCOPE_NONE (-1)
#define SCOPE_HERE 0 /* in the statement itself; above: nested */

static int scope_depth = SCOPE_NONE;
static SubTransactionId scope_owner =
	InvalidSubTransactionId; /* in which the last scope was opened */

/* GUC */
static bool batch_inserts = true;

/*
 * Whether the scope was opened late, and whether that can still happen: it
 * cannot after one of the hooks below has been called.
 */
static bool scope_is_late = false;
static bool late_scope_possible = true;

static ExecutorStart_hook_type next_ExecutorStart = NULL;
static ExecutorRun_hook_type next_ExecutorRun = NULL;
static ExecutorFinish_hook_type next_ExecutorFinish = NULL;
static ProcessUtility_hook_type next_ProcessUtility = NULL;

/* ----------------------------------------------------------------
 *		The scope
 *
 * A hook that enters a scope or a nested call saves the depth before and
 * restores it in PG_FINALLY, so that it is right whatever errors were caught on
 * the way.
 * ----------------------------------------------------------------
 */

/*
 * Open a scope.  Nothing is queued at this point, unless other code has caught an
 * error of an earlier scope without a subtransaction: do not mix the two.
 */
static void
scope_open(void)
{
	Assert(scope_depth == SCOPE_NONE);
	hm_batch_apply_all();
	scope_owner = GetCurrentSubTransactionId();
	hm_batch_begin();
	scope_depth = SCOPE_HERE;
}

/* The scope's statement has done its work. */
static void
scope_end(void)
{
	Assert(scope_depth == SCOPE_HERE);
	hm_batch_apply_all();
	hm_batch_discard();
}

/* A hook was called: a late scope ends here. */
static void
scope_end_late(void)
{
	late_scope_possible = false;
	if (scope_is_late)
	{
		scope_end();
		scope_is_late = false;
		scope_depth = SCOPE_NONE;
	}
}

/* Forget a late scope, whose hooks do not restore the depth. */
static void
scope_forget_late(void)
{
	if (scope_is_late)
	{
		scope_is_late = false;
		scope_depth = SCOPE_NONE;
	}
}

/* Enter a nested call. */
static void
scope_nest(void)
{
	Assert(scope_depth != SCOPE_NONE);
	hm_batch_apply_all();
	scope_depth++;
}

/*
 * Whether a plan forbids a scope: it is a ModifyTable node with ON CONFLICT, or
 * a custom node that may hide one.
 */
static bool
plan_forbids_scope(Plan *plan)
{
	if (plan == NULL)
		return false;
	if (IsA(plan, ModifyTable))
		return ((ModifyTable *) plan)->onConflictAction != ONCONFLICT_NONE;
	return IsA(plan, CustomScan);
}

/*
 * Whether a statement opens a scope: some part of it inserts or updates, and no
 * part of it has ON CONFLICT.  ModifyTable nodes stand at the top of the plan
 * and of the subplans of WITH clauses, nowhere else.
 */
static bool
statement_opens_scope(const PlannedStmt *stmt)
{
	ListCell *cell;

	if (!batch_inserts)
		return false;

	if (stmt->commandType != CMD_INSERT && stmt->commandType != CMD_UPDATE &&
		stmt->commandType != CMD_MERGE && !stmt->hasModifyingCTE)
		return false;

	if (plan_forbids_scope(stmt->planTree))
		return false;
	if (stmt->hasModifyingCTE)
	{
		foreach (cell, stmt->subplans)
		{
			if (plan_forbids_scope((Plan *) lfirst(cell)))
				return false;
		}
	}
	return true;
}

/* Whether a utility command is a COPY FROM that may open a scope. */
static bool
utility_opens_scope(Node *statement)
{
	return batch_inserts && IsA(statement, CopyStmt) && ((CopyStmt *) statement)->is_from;
}

/*
 * Whether what runs now is the top-level statement itself.  All code that runs statements
 * inside other statements sets an error context.  Executing a prepared statement and COPY
 * set one too, but are top-level.
 */
static bool
at_top_level(void)
{
	ErrorContextCallback *context = error_context_stack;

	if (context != NULL &&
		(context->callback == ParamsErrorCallback || context->callback == CopyFromErrorCallback))
		context = context->previous;
	return context == NULL;
}

/*
 * The first insertion after the library was loaded asks for a scope.  Opens one
 * if the statement that inserts is a single top-level one that may have it.
 */
static void
scope_open_late(void)
{
	PlannedStmt *stmt;

	if (!late_scope_possible)
		return;
	late_scope_possible = false;

	if (scope_depth != SCOPE_NONE || ActivePortal == NULL ||
		ActivePortal->status != PORTAL_ACTIVE || ActivePortal->strategy != PORTAL_MULTI_QUERY ||
		list_length(ActivePortal->stmts) != 1 || !at_top_level())
		return;

	stmt = linitial_node(PlannedStmt, ActivePortal->stmts);
	if (stmt->commandType == CMD_UTILITY ? utility_opens_scope(stmt->utilityStmt) :
										   statement_opens_scope(stmt))
	{
		scope_open();
		scope_is_late = true;
	}
}

bool
hm_statement_queues(void)
{
	if (scope_depth != SCOPE_HERE)
	{
		scope_open_late();
		if (scope_depth != SCOPE_HERE)
			return false;
	}
	return GetCurrentSubTransactionId() == scope_owner;
}

/* ----------------------------------------------------------------
 *		Hooks and callbacks
 * ----------------------------------------------------------------
 */

static void
batch_ExecutorStart(QueryDesc *queryDesc, int eflags)
{
	scope_end_late();
	hm_batch_apply_all();

	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

static void
call_ExecutorRun(HM_EXECUTOR_RUN_PARAMETERS)
{
	if (next_ExecutorRun)
		next_ExecutorRun(HM_EXECUTOR_RUN_ARGUMENTS);
	else
		standard_ExecutorRun(HM_EXECUTOR_RUN_ARGUMENTS);
}

static void
batch_ExecutorRun(HM_EXECUTOR_RUN_PARAMETERS)
{
	int outer_depth;

	scope_end_late();
	outer_depth = scope_depth;
	if (outer_depth != SCOPE_NONE)
		scope_nest();
	else if (statement_opens_scope(queryDesc->plannedstmt))
		scope_open();
	else
	{
		call_ExecutorRun(HM_EXECUTOR_RUN_ARGUMENTS);
		return;
	}

	PG_TRY();
	{
		call_ExecutorRun(HM_EXECUTOR_RUN_ARGUMENTS);
		if (outer_depth == SCOPE_NONE)
			scope_end();
	}
	PG_FINALLY();
	{
		scope_depth = outer_depth;
	}
	PG_END_TRY();
}

static void
call_ExecutorFinish(QueryDesc *queryDesc)
{
	if (next_ExecutorFinish)
		next_ExecutorFinish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);
}

/*
 * A scope has ended with its ExecutorRun, but a nested statement's WITH clauses
 * can insert here.
 */
static void
batch_ExecutorFinish(QueryDesc *queryDesc)
{
	int outer_depth;

	scope_end_late();
	outer_depth = scope_depth;
	if (outer_depth == SCOPE_NONE)
	{
		call_ExecutorFinish(queryDesc);
		return;
	}

	scope_nest();
	PG_TRY();
	{
		call_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		scope_depth = outer_depth;
	}
	PG_END_TRY();
}

static void
call_ProcessUtility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
					DestReceiver *dest, QueryCompletion *qc)
{
	if (next_ProcessUtility)
		next_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest,
								qc);
}

static void
batch_ProcessUtility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	int outer_depth;

	scope_end_late();
	outer_depth = scope_depth;
	if (outer_depth != SCOPE_NONE)
		scope_nest();
	else if (utility_opens_scope(pstmt->utilityStmt))
		scope_open();
	else
	{
		hm_batch_apply_all();
		call_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}

	PG_TRY();
	{
		call_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		if (outer_depth == SCOPE_NONE)
			scope_end();
	}
	PG_FINALLY();
	{
		scope_depth = outer_depth;
	}
	PG_END_TRY();
}

/*
 * The end of a transaction.  Scopes have ended before; applying here is a safety
 * net for code that caught an error of a scope without a subtransaction.
 */
static void
batch_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			scope_end_late();
			hm_batch_apply_all();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			scope_forget_late();
			hm_batch_discard();
			break;
		default:
			break;
	}
}

/* The end of a subtransaction; of interest if it owns the queue. */
static void
batch_subxact_callback(SubXactEvent event, SubTransactionId subxact, SubTransactionId parent,
					   void *arg)
{
	if (subxact != scope_owner)
		return;
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
	{
		scope_end_late();
		hm_batch_apply_all();
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		scope_forget_late();
		hm_batch_discard();
	}
}

void
hm_statement_init(void)
{
	hm_batch_init();
	DefineCustomBoolVariable("harmonia.batch_inserts",
							 "Applies the index entries of a large statement in batches.", NULL,
							 &batch_inserts, true, PGC_USERSET, 0, NULL, NULL, NULL);

	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = batch_ExecutorStart;
	next_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = batch_ExecutorRun;
	next_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = batch_ExecutorFinish;
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = batch_ProcessUtility;

	RegisterXactCallback(batch_xact_callback, NULL);
	RegisterSubXactCallback(batch_subxact_callback, NULL);
}
