#include "cli/cmd_diff_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/print_error.h"
#include "cli/options/options.h"
#include "cli/options/question.h"
#include "report/html/html_diff_write.h"
#include "report/runs_report.h"

#define FIELD(NAME) OPTION_FIELD(struct runs_question, NAME)

const struct option_row runs_rows[] = {
    {"--confidence", "PCT", "of all intervals together, and of there being no false alarm", "99",
     .type = VALUE_REAL, .least = 50, .most = 99, FIELD(confidence)},
    {"--unstable", "PCT", "mark what differs by more than this between runs of one side", "10",
     .type = VALUE_REAL, .most = 1000, FIELD(unstable)},
    {"--mute-unstable", NULL, "do not test what is marked so", FIELD(mute_unstable)},
    {"--mute", "REGEX", "do not test functions and files that match (as in Perl)", FIELD(mute)},
    {0},
};

bool runs_question_take(struct runs_question *q, int n, char **arguments, const char *separator,
                        struct err *e)
{
    int at = 0;
    while (at < n && arguments[at] != separator)
        at++;
    q->asked = at < n;
    if (!q->asked)
        return true;
    q->paths[0] = arguments;
    q->count[0] = (size_t)at;
    q->paths[1] = arguments + at + 1;
    q->count[1] = (size_t)(n - at - 1);
    if (q->count[1] == 0)
        err_set(e, ERR_USAGE, "which new runs?");
    return q->count[1] != 0;
}

int runs_question_load(struct runs_question *q, const struct run_input_options *options,
                       struct err *e)
{
    for (int side = 0; side < 2; side++) {
        size_t before = q->runs.list.len;
        for (size_t i = 0; i < q->count[side]; i++) {
            if (run_inputs_add(&q->runs, q->paths[side][i], options, e) != 0)
                return -1;
        }
        q->loaded[side] = q->runs.list.len - before;
    }
    return 0;
}

void runs_question_release(struct runs_question *q)
{
    run_inputs_release(&q->runs);
}

/* Runs of other programs in a baseline look like noise, which hides changes. */
static void note_programs(const struct runs_question *q)
{
    struct err e;
    for (size_t i = 1; i < q->runs.list.len; i++) {
        const struct run_figures *first = &q->runs.list.at[0], *other = &q->runs.list.at[i];
        if (strcmp(first->program, other->program) == 0)
            continue;
        err_set(&e, ERR_CHECK, "note: runs of different programs: %.60s (%.150s), %.60s (%.150s)",
                first->program, first->name, other->program, other->name);
        print_error(&e);
        return;
    }
}

/* Reports the first expression that is true or unknown. */
static void judge(const struct runs_diff *d, struct err *verdict)
{
    for (size_t i = 0; i < d->checks.list.len && !verdict->code; i++) {
        const struct summary_check *one = &d->checks.list.at[i];
        if (!one->holds)
            err_set(verdict, ERR_CHECK, "fail-if %.100s: %s", one->name, one->detail);
    }
}

/* The report says by a failed check that it lacks runs. */
static int check_unread(struct runs_diff *d, struct run_inputs *runs, struct err *e)
{
    struct summary_check check = {.name = "all-runs-read"};
    char n[FORMAT_SIZE];
    if (runs->unread == 0)
        return 0;
    snprintf(check.detail, sizeof check.detail, "%s cannot be read: %s",
             format_counted(n, runs->unread, "file"), buf_str(&runs->unread_names));
    return vec_push(&d->checks.list, check) ? 0 : err_no_memory(e, "checks");
}

/* The page is made of the JSON. */
static int write_page(const struct runs_diff *d, const struct diff_report_options *report,
                      FILE *out, struct err *e)
{
    struct diff_report_options options = *report;
    char *json = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&json, &len);
    if (!to)
        return err_no_memory(e, "the page");
    options.format = DIFF_JSON;
    int status = runs_diff_write(d, &options, to, e);
    if (fclose(to) != 0 && status == 0)
        status = err_no_memory(e, "the page");
    if (status == 0)
        status = html_runs_write((struct view){json, len}, out, e);
    free(json);
    return status;
}

int runs_question_answer(struct runs_question *q, enum diff_metric metric,
                         const struct diff_report_options *report, const struct budgets *fail_if,
                         FILE *out, struct err *e)
{
    struct runs_diff_options options = {
        .metric = metric,
        .noise = {.level = (100 - q->confidence) / 100,
                  .unstable = q->unstable / 100,
                  .mute_unstable = q->mute_unstable},
        .budgets = {fail_if->list.at, fail_if->list.len},
    };
    struct runs_diff d;
    struct err verdict = {0};
    struct pattern *mute = NULL;
    if (q->mute && !(mute = pattern_new(q->mute, strlen(q->mute), e)))
        return -1;
    options.mute = mute;
    note_programs(q);
    int status = runs_diff_build(&d, q->runs.list.at, q->loaded, &options, e);
    if (status == 0) {
        judge(&d, &verdict);
        status = check_unread(&d, &q->runs, e);
        if (status == 0)
            status = report->format == DIFF_HTML ? write_page(&d, report, out, e)
                                                 : runs_diff_write(&d, report, out, e);
        question_print_doubts(d.checks.list.at, d.checks.list.len);
        if (status == 0 && verdict.code) {
            *e = verdict;
            status = -1;
        }
        runs_diff_release(&d);
    }
    pattern_free(mute);
    return status;
}
