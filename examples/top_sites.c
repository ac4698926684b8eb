/*
 * The ten sites of a trace that allocated most, and the largest block that was never freed with its
 * call stack.
 *
 *     cc -o top_sites top_sites.c $(pkg-config --cflags --libs tidetrace)
 *     ./top_sites run.tracy
 */

#include <inttypes.h>
#include <stdio.h>

#include <tidetrace.h>

#define BATCH 256
#define STACK 64

static int fail(const struct tidetrace_error *error)
{
    fprintf(stderr, "top_sites: %s\n", error->text);
    return 1;
}

/* Texts of a trace may hold anything: a terminal should not see control characters. */
static void put_text(struct tidetrace_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
}

static int print_sites(struct tidetrace *trace)
{
    struct tidetrace_error error;
    struct tidetrace_result *report;
    struct tidetrace_report_options options = {
        .struct_size = sizeof options, .by = TIDETRACE_BY_SITE, .sort = TIDETRACE_SORT_SIZE};
    if (tidetrace_report(trace, &options, &report, &error) != TIDETRACE_OK)
        return fail(&error);
    int status = 0;
    for (uint64_t i = 0; i < 10 && i < tidetrace_result_rows(report); i++) {
        struct tidetrace_report_row row = {.struct_size = sizeof row};
        if (tidetrace_report_row(report, i, &row, &error) != TIDETRACE_OK) {
            status = fail(&error);
            break;
        }
        printf("%12" PRIu64 " bytes %9" PRIu64 " times  ", row.figures.bytes, row.figures.count);
        put_text(row.name);
        if (row.file.size) {
            printf(" (");
            put_text(row.file);
            printf(":%" PRIu32 ")", row.line);
        }
        putchar('\n');
    }
    tidetrace_result_free(report);
    return status;
}

static int find_largest(struct tidetrace *trace, struct tidetrace_allocation *largest)
{
    struct tidetrace_error error;
    struct tidetrace_allocations *all;
    static struct tidetrace_allocation batch[BATCH];
    size_t count;
    int code;
    if (tidetrace_allocations_open(trace, NULL, &all, &error) != TIDETRACE_OK)
        return fail(&error);
    while ((code = tidetrace_allocations_next(all, batch, sizeof *batch, BATCH, &count, &error)) ==
               TIDETRACE_OK &&
           count) {
        for (size_t i = 0; i < count; i++) {
            if (batch[i].free_time == -1 && batch[i].size > largest->size)
                *largest = batch[i];
        }
    }
    tidetrace_allocations_close(all);
    return code == TIDETRACE_OK ? 0 : fail(&error);
}

static int print_largest(struct tidetrace *trace)
{
    struct tidetrace_error error;
    struct tidetrace_allocation largest = {.size = 0};
    struct tidetrace_frame frames[STACK];
    size_t depth;
    if (find_largest(trace, &largest) != 0)
        return 1;
    printf("largest block that was never freed: %" PRIu64 " bytes\n", largest.size);
    if (tidetrace_get_callstack(trace, largest.callstack, frames, sizeof *frames, STACK, &depth,
                                &error) != TIDETRACE_OK)
        return fail(&error);
    for (size_t i = 0; i < depth && i < STACK; i++) {
        printf("    ");
        put_text(frames[i].function.size ? frames[i].function : frames[i].image);
        printf(frames[i].flags & TIDETRACE_FRAME_INLINE ? " (inlined)\n" : "\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tidetrace *trace;
    struct tidetrace_error error;
    struct tidetrace_info info = {.struct_size = sizeof info};
    if (argc != 2) {
        fprintf(stderr, "usage: top_sites TRACE\n");
        return 2;
    }
    if (tidetrace_open(argv[1], NULL, &trace, &error) != TIDETRACE_OK ||
        tidetrace_get_info(trace, &info, &error) != TIDETRACE_OK)
        return fail(&error);
    put_text(info.program);
    printf(": %" PRIu64 " allocations in %.3f s%s\n", info.allocations, (double)info.duration / 1e9,
           info.flags & TIDETRACE_COMPLETE ? "" : "; the trace is incomplete");
    int status = print_sites(trace) || print_largest(trace);
    tidetrace_close(trace);
    return status;
}
