/*
 * may_fail.c
 *		Whether the evaluation of an expression may fail.
 */
#include "postgres.h"

#include "catalog/pg_amop.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "exec/planner.h"

/* Whether an operator, or its negator, compares by an order of btree's. */
static bool
is_comparison(Oid operator)
{
	CatCList *list = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(operator));
	bool found = false;
	Oid left, right;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&list->members[i]->tuple);

		found |= member->amopmethod == BTREE_AM_OID;
	}
	ReleaseSysCacheList(list);

	/* What compares elements or fields may find that these have no order. */
	op_input_types(operator, & left, &right);
	return found && left != RECORDOID && (left == ANYENUMOID || !IsPolymorphicType(left));
}

static bool
may_fail(Node *node, void *argument)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_BoolExpr:
		case T_BooleanTest:
		case T_NullTest:
			break;
		case T_Param:
			if (((Param *) node)->paramkind != PARAM_EXTERN)
				return true;
			break;
		case T_FuncExpr:
			if (!get_func_leakproof(((FuncExpr *) node)->funcid))
				return true;
			break;
		case T_OpExpr:
		case T_ScalarArrayOpExpr:
		{
			OpExpr *clause = (OpExpr *) node;
			Oid operator= IsA(node, OpExpr) ? clause->opno : ((ScalarArrayOpExpr *) node)->opno;
			Oid negator = get_negator(operator);

			if (!get_func_leakproof(get_opcode(operator)) && !is_comparison(operator) &&
				!(OidIsValid(negator) && is_comparison(negator)))
				return true;
			break;
		}
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail, argument);
}

bool
hm_may_fail(Node *expr, bool evaluate_constants)
{
	return may_fail(evaluate_constants ? eval_const_expressions(NULL, expr) : expr, NULL);
}
