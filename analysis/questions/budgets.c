#include "analysis/questions/budgets.h"

#include <string.h>

bool budgets_add(struct budgets *b, const char *option, const char *text, bool alone, struct err *e)
{
    struct budget one;
    if (budget_parse(&one, text, e) != 0) {
        err_prefix(e, "%s", option);
        return false;
    }
    if (alone && one.needs_base)
        err_set(e, ERR_USAGE,
                "%s: '%.200s' asks for a change, but there is nothing to compare with (diff has)",
                option, text);
    else if (vec_push(&b->list, one))
        return true;
    else
        err_no_memory(e, "expressions");
    budget_release(&one);
    return false;
}

void budgets_release(struct budgets *b)
{
    for (size_t i = 0; i < b->list.len; i++)
        budget_release(&b->list.at[i]);
    vec_release(&b->list);
}

const struct budget *budgets_of_leaks(const struct budgets *b)
{
    for (size_t i = 0; i < b->list.len; i++) {
        const struct budget *one = &b->list.at[i];
        for (size_t j = 0; j < one->terms.len; j++) {
            enum budget_metric metric = one->terms.at[j].metric;
            if (metric == BUDGET_LEAKED || metric == BUDGET_LEAKED_COUNT)
                return one;
        }
    }
    return NULL;
}

bool budgets_doubt(const struct summary_check *check, struct err *e)
{
    bool has_name = check->expression == NULL; /* its detail does not begin with the expression */
    if (!check->holds || !check->unmatched)
        return false;
    err_set(e, ERR_CHECK, "note: fail-if %.100s%s%s", has_name ? check->name : "",
            has_name ? ": " : "", check->detail);
    return true;
}

int budgets_check(const struct budgets *b, struct summary *s, const char *name, bool wanted,
                  struct err *e)
{
    struct err failed = {0};
    for (size_t i = 0; i < b->list.len; i++) {
        bool holds;
        if (budget_summary_check(s, &b->list.at[i], name, wanted, &holds, e) != 0)
            return -1;
        if (!holds && !failed.code)
            err_set(&failed, ERR_CHECK, "%s %s", name, s->checks.at[s->checks.len - 1].detail);
    }
    if (failed.code)
        *e = failed;
    return failed.code ? -1 : 0;
}
