/*
 * lookup_plan.c
 *		A lookup node's plan as lists: the one writer and the one reader.
 */
#include "postgres.h"

#include "exec/lookup_plan.h"

/* The order of custom_private.  In custom_exprs are the expressions, as the struct has them. */
enum
{
	PLAN_NUMBERS,
	PLAN_ARMS,
	PLAN_KEYS,
	PLAN_SUBPLAN,
	PLAN_SOURCES,
	PLAN_TARGETS,
	PLAN_PRUNING,
	PLAN_COLUMNS,
	PLAN_CLAUSE_COLUMNS
};

/* A number of 128 or 64 bits, as integers. */
static List *
append_bits(List *list, HmKey number, int bits)
{
	for (int shift = bits - 32; shift >= 0; shift -= 32)
		list = lappend_int(list, (int) (uint32) (number >> shift));
	return list;
}

static HmKey
take_bits(const List *list, int *next, int bits)
{
	HmKey		number = 0;

	for (int i = 0; i < bits; i += 32)
		number = number << 32 | (uint32) list_nth_int(list, (*next)++);
	return number;
}

static List *
write_key(const LookupKey *key)
{
	return list_make5_int(key->strategy, (int) key->type, key->is_array, key->column,
						  (int) key->key_type);
}

static LookupKey *
read_key(const List *list)
{
	LookupKey  *key = palloc(sizeof(LookupKey));

	key->strategy = linitial_int(list);
	key->type = (Oid) lsecond_int(list);
	key->is_array = lthird_int(list) != 0;
	key->column = lfourth_int(list);
	key->key_type = (Oid) list_nth_int(list, 4);
	return key;
}

static List *
write_target(const LookupTarget *target)
{
	const HmShare *share = &target->share;
	List	   *numbers = append_bits(NIL, share->low, 128);

	numbers = append_bits(numbers, share->high, 128);
	numbers = append_bits(numbers, share->modulus, 64);
	numbers = append_bits(numbers, share->remainder, 64);
	return list_make3(list_make4_oid(target->table, target->index, share->hash,
									 share->collation), numbers, target->columns);
}

static LookupTarget *
read_target(const List *list)
{
	LookupTarget *target = palloc(sizeof(LookupTarget));
	List	   *oids = linitial(list);
	List	   *numbers = lsecond(list);
	int			next = 0;

	target->table = linitial_oid(oids);
	target->index = lsecond_oid(oids);
	target->share.hash = lthird_oid(oids);
	target->share.collation = lfourth_oid(oids);
	target->share.low = take_bits(numbers, &next, 128);
	target->share.high = take_bits(numbers, &next, 128);
	target->share.modulus = (uint64) take_bits(numbers, &next, 64);
	target->share.remainder = (uint64) take_bits(numbers, &next, 64);
	target->columns = lthird(list);
	return target;
}

/* A list with each element written or read. */
#define EACH(list, function) \
	do { \
		ListCell   *each; \
		List	   *made = NIL; \
		\
		foreach(each, list) \
			made = lappend(made, function(lfirst(each))); \
		return made; \
	} while (0)

static List *
write_keys(const List *keys)
{
	EACH(keys, write_key);
}

static List *
read_keys(const List *lists)
{
	EACH(lists, read_key);
}

static List *
write_arms(const List *arms)
{
	EACH(arms, write_keys);
}

static List *
read_arms(const List *lists)
{
	EACH(lists, read_keys);
}

static List *
write_targets(const List *targets)
{
	EACH(targets, write_target);
}

static List *
read_targets(const List *lists)
{
	EACH(lists, read_target);
}

void
hm_lookup_plan_write(const LookupPlan *plan, CustomScan *scan)
{
	List	   *numbers = list_make5_int(plan->type, plan->index_only, plan->first_rows,
										 plan->distinct, plan->composite);

	numbers = lappend_int(numbers, plan->share_column);
	numbers = lappend_int(numbers, (int) plan->key_type);
	scan->custom_private = list_make5(numbers, write_arms(plan->arms), write_keys(plan->keys),
									  plan->subplan, plan->sources);
	scan->custom_private = list_concat(scan->custom_private,
									   list_make4(write_targets(plan->targets), plan->pruning,
												  plan->columns, plan->clause_columns));
	scan->custom_exprs = list_make5(plan->arguments, plan->key_clauses, plan->inner_quals,
									plan->quals, plan->prune_steps);
}

void
hm_lookup_plan_read(LookupPlan *plan, const CustomScan *scan)
{
	const List *lists = scan->custom_private;
	const List *numbers = list_nth(lists, PLAN_NUMBERS);

	plan->type = (JoinType) linitial_int(numbers);
	plan->index_only = lsecond_int(numbers) != 0;
	plan->first_rows = lthird_int(numbers) != 0;
	plan->distinct = lfourth_int(numbers) != 0;
	plan->composite = list_nth_int(numbers, 4) != 0;
	plan->share_column = list_nth_int(numbers, 5);
	plan->key_type = (Oid) list_nth_int(numbers, 6);
	plan->arms = read_arms(list_nth(lists, PLAN_ARMS));
	plan->keys = read_keys(list_nth(lists, PLAN_KEYS));
	plan->subplan = list_nth(lists, PLAN_SUBPLAN);
	plan->sources = list_nth(lists, PLAN_SOURCES);
	plan->targets = read_targets(list_nth(lists, PLAN_TARGETS));
	plan->pruning = list_nth(lists, PLAN_PRUNING);
	plan->columns = list_nth(lists, PLAN_COLUMNS);
	plan->clause_columns = list_nth(lists, PLAN_CLAUSE_COLUMNS);
	plan->arguments = linitial(scan->custom_exprs);
	plan->key_clauses = lsecond(scan->custom_exprs);
	plan->inner_quals = lthird(scan->custom_exprs);
	plan->quals = lfourth(scan->custom_exprs);
	plan->prune_steps = list_nth(scan->custom_exprs, 4);
}
