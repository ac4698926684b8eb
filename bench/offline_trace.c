/*
 * Writes a trace like those of clients built for offline resolution: an allocation for each address
 * read from standard input (hexadecimal, one a line), whose call stack is one frame "[unresolved]"
 * at that offset of IMAGE.
 *
 *     offline_trace IMAGE OUT.tracy
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/filter/symbolize.h"
#include "trace/save/save_file.h"
#include "trace/store/memory_steps.h"
#include "trace/store/store.h"

static int add(struct trace *t, uint32_t image, uint64_t offset, struct err *e)
{
    struct rec_inline_frame unresolved = {.symbol = offset, .line = 0};
    unresolved.function = strings_intern(&t->strings, view_of(SYMBOLIZE_UNRESOLVED), e);
    unresolved.file = strings_intern(&t->strings, view_of("[unknown]"), e);
    if (!unresolved.function || !unresolved.file)
        return -1;
    uint32_t stack;
    bool fresh;
    if (callstacks_resolve(&t->callstacks, offset, image, &unresolved, 1, e) != 0 ||
        callstacks_intern(&t->callstacks, &offset, 1, &stack, &fresh, e) != 0)
        return -1;
    struct memory_place at = {++t->facts.last_time, 0, stack};
    struct memory_aim aim;
    memory_aim_at(&aim, t->memory.pools.at[0], (uint64_t)at.time << 8);
    return memory_alloc(&t->memory, &aim, 64, at, e) < 0 ? -1 : 0;
}

static int fill(struct trace *t, const char *image_path, struct err *e)
{
    uint32_t pool, image = strings_intern(&t->strings, view_of(image_path), e);
    if (!image || memory_pool(&t->memory, 0, &pool, e) != 0)
        return -1;
    t->facts.program = t->facts.capture_name = image;
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (add(t, image, strtoull(line, NULL, 16), e) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: offline_trace IMAGE OUT.tracy < ADDRESSES\n", stderr);
        return 2;
    }
    struct trace t;
    struct err e = {0};
    struct save_options options = {.layout = file_layout_find(FILE_VERSION(0, 14, 0)),
                                   .container = container_options_default(),
                                   .replace = true};
    struct trace_write_stats stats;
    struct buf losses = {0};
    int status = trace_init(&t, NULL, &e);
    if (status == 0) {
        if (fill(&t, argv[1], &e) != 0 ||
            trace_save_file(&t, argv[2], &options, &stats, &losses, &e) != 0)
            status = -1;
        buf_release(&losses);
        trace_release(&t);
    }
    if (status != 0)
        fprintf(stderr, "offline_trace: %s\n", e.text);
    return status != 0;
}
