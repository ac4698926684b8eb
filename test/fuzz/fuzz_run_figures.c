/*
 * Any text as the figures of a run: it is refused with a cause, or what was read can be written and
 * read again, and compared with itself.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/runs/run_figures.h"
#include "analysis/runs/runs_diff.h"
#include "report/runs_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static char *written(const struct run_figures *f, size_t *len)
{
    char *text = NULL;
    struct err e = {0};
    FILE *out = open_memstream(&text, len);
    check(out != NULL);
    check(run_figures_write(f, out, &e) == 0);
    fclose(out);
    return text;
}

static void compare(struct run_figures *f)
{
    const struct runs_diff_options options = {.metric = DIFF_PEAK,
                                              .noise = {.level = 0.5, .unstable = 0.1}};
    struct run_figures runs[4] = {*f, *f, *f, *f};
    struct runs_diff d;
    struct err e = {0};
    if (runs_diff_build(&d, runs, (size_t[]){2, 2}, &options, &e) != 0) {
        check(e.code == ERR_CHECK && f->summary.empty);
        return;
    }
    check(d.count[DIFF_SAME] == d.rows.len);
    for (int format = DIFF_TEXT; format <= DIFF_JUNIT; format++) {
        char *text = NULL;
        size_t len;
        if (format == DIFF_HTML) /* runs_diff_write does not write it */
            continue;
        const struct diff_report_options report = {.format = (enum diff_format)format};
        FILE *out = open_memstream(&text, &len);
        check(out && runs_diff_write(&d, &report, out, &e) == 0);
        fclose(out);
        free(text);
    }
    runs_diff_release(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_figures f, again;
    struct err e = {0};
    size_t len, twice_len;
    if (run_figures_read(&f, "x", (struct view){(const char *)data, size}, &e) != 0) {
        check(e.code == ERR_INPUT && e.text[0]);
        return 0;
    }
    char *text = written(&f, &len);
    check(run_figures_read(&again, "x", (struct view){text, len}, &e) == 0);
    char *twice = written(&again, &twice_len);
    check(len == twice_len && memcmp(text, twice, len) == 0);
    compare(&f);
    free(text);
    free(twice);
    run_figures_release(&f);
    run_figures_release(&again);
    return 0;
}
