/*
 * validate.c
 *		Operator class validator.
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "am/keys/keys.h"

#define ALL_STRATEGIES \
	((1 << BTLessStrategyNumber) | (1 << BTLessEqualStrategyNumber) | \
	 (1 << BTEqualStrategyNumber) | (1 << BTGreaterEqualStrategyNumber) | \
	 (1 << BTGreaterStrategyNumber))

/* Whether keys of a type, in a family, have no order, not even one for ranges. */
static bool
has_no_order(Oid family, Oid type)
{
	const HmKeyType *key_type = hm_key_type_lookup(hm_type_id_of_class(family, type));

	return key_type != NULL && !hm_keys_have_ranges(key_type);
}

/*
 * The strategies that a family has for a pair of types: all, or equality alone if the keys of
 * one of them have no order.
 */
static uint64
strategies_of(Oid family, Oid left, Oid right)
{
	if (has_no_order(family, left) || has_no_order(family, right))
		return 1 << BTEqualStrategyNumber;
	return ALL_STRATEGIES;
}

/*
 * Whether an operator is the one that btree has for this strategy.  The access method
 * never calls operators: it compares as the default btree operator class of the type
 * does, so any other operator would get wrong answers.
 */
static bool
is_btree_operator(Form_pg_amop form)
{
	Oid opclass = GetDefaultOpClass(form->amoplefttype, BTREE_AM_OID);

	return OidIsValid(opclass) &&
		   get_opfamily_member(get_opclass_family(opclass), form->amoplefttype, form->amoprighttype,
							   form->amopstrategy) == form->amopopr;
}

/* What is wrong with an operator's types or its function; NULL if nothing is. */
static const char *
signature_problem(Form_pg_amop form)
{
	const char *name = format_operator(form->amopopr);

	if (!check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, form->amoprighttype))
		return psprintf("operator %s with wrong signature", name);
	if (hm_bracket_function(form->amoplefttype, form->amoprighttype) == NULL)
		return psprintf("operator %s for unsupported types", name);
	if (!is_btree_operator(form))
		return psprintf("operator %s, which is not btree's for strategy number %d", name,
						form->amopstrategy);
	return NULL;
}

/* Report a problem, if there is one, by INFO.  Returns whether there is none. */
static bool
has_no_problem(const char *family, const char *problem)
{
	if (problem != NULL)
		ereport(INFO, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					   errmsg("operator family \"%s\" of access method %s contains %s", family,
							  "harmonia", problem)));
	return problem == NULL;
}

/* Check an operator of a family.  Reports problems by INFO; returns whether there was none. */
static bool
operator_valid(const char *family, Form_pg_amop form)
{
	const char *name = format_operator(form->amopopr);
	bool result = true;

	if (form->amopstrategy < BTLessStrategyNumber || form->amopstrategy > BTMaxStrategyNumber)
		return has_no_problem(family, psprintf("operator %s with invalid strategy number %d", name,
											   form->amopstrategy));
	if ((strategies_of(form->amopfamily, form->amoplefttype, form->amoprighttype) >>
			 form->amopstrategy &
		 1) == 0)
		return has_no_problem(family, psprintf("operator %s, but keys of type %s have no order",
											   name, format_type_be(form->amoplefttype)));
	if (form->amoppurpose != AMOP_SEARCH || OidIsValid(form->amopsortfamily))
		result = has_no_problem(family,
								psprintf("invalid ORDER BY specification for operator %s", name));
	return has_no_problem(family, signature_problem(form)) && result;
}

/* Check the operators of a family one by one. */
static bool
operators_valid(const char *family, CatCList *operators)
{
	bool result = true;

	for (int i = 0; i < operators->n_members; i++)
		result &= operator_valid(family, (Form_pg_amop) GETSTRUCT(&operators->members[i]->tuple));
	return result;
}

/*
 * Check that a family is complete: it has all strategies that it can have for each pair of
 * types, and all pairs of its types.  Reports problems by INFO; returns whether there was none.
 * *found becomes true if the family has operators that compare the type with itself.
 */
static bool
groups_valid(const char *family, Oid family_oid, CatCList *operators, CatCList *functions, Oid type,
			 bool *found)
{
	bool result = true;
	List *groups = identify_opfamily_groups(operators, functions);
	List *types = NIL;
	ListCell *cell;

	*found = false;
	foreach (cell, groups)
	{
		OpFamilyOpFuncGroup *group = (OpFamilyOpFuncGroup *) lfirst(cell);

		types = list_append_unique_oid(types, group->lefttype);
		types = list_append_unique_oid(types, group->righttype);
		if (group->lefttype == type && group->righttype == type)
			*found = true;

		if ((group->operatorset & strategies_of(family_oid, group->lefttype, group->righttype)) !=
			strategies_of(family_oid, group->lefttype, group->righttype))
		{
			ereport(INFO, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						   errmsg("operator family \"%s\" of access method %s is missing "
								  "operator(s) for types %s and %s",
								  family, "harmonia", format_type_be(group->lefttype),
								  format_type_be(group->righttype))));
			result = false;
		}
	}

	if (list_length(groups) != list_length(types) * list_length(types))
	{
		ereport(
			INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method %s is missing cross-type operator(s)",
					family, "harmonia")));
		result = false;
	}
	return result;
}

/*
 * amvalidate: check an operator class and the family that it belongs to.  Reports every
 * problem by INFO, and returns whether there was none.
 */
bool
hm_validate(Oid opclass)
{
	bool result = true;
	bool found;
	HeapTuple class_tuple;
	HeapTuple family_tuple;
	Form_pg_opclass class_form;
	const char *family;
	CatCList *operators;
	CatCList *functions;

	class_tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(class_tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass);
	class_form = (Form_pg_opclass) GETSTRUCT(class_tuple);

	family_tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(class_form->opcfamily));
	if (!HeapTupleIsValid(family_tuple))
		elog(ERROR, "cache lookup failed for operator family %u", class_form->opcfamily);
	family = NameStr(((Form_pg_opfamily) GETSTRUCT(family_tuple))->opfname);

	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(class_form->opcfamily));
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(class_form->opcfamily));

	if (hm_key_type_lookup(class_form->opcintype) == NULL)
	{
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class \"%s\" of access method %s is for unsupported type %s",
						NameStr(class_form->opcname), "harmonia",
						format_type_be(class_form->opcintype))));
		result = false;
	}

	if (!operators_valid(family, operators))
		result = false;
	if (!groups_valid(family, class_form->opcfamily, operators, functions, class_form->opcintype,
					  &found))
		result = false;
	if (!found)
	{
		ereport(INFO, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					   errmsg("operator class \"%s\" of access method %s is missing operator(s)",
							  NameStr(class_form->opcname), "harmonia")));
		result = false;
	}

	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(family_tuple);
	ReleaseSysCache(class_tuple);

	return result;
}
