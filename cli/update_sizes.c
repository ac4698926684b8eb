#include "cli/update_sizes.h"

#include <inttypes.h>
#include <string.h>

#include "base/format.h"

/*
 * A smaller share of a file is lost among other changes of its size, since blocks are cut
 * differently.
 */
#define SHARE_THAT_SHOWS 10 /* percent */

static uint64_t memory_bytes(const struct update_sizes *s)
{
    return s->stripped ? s->in->part_file_bytes[PART_MEMORY] : 0;
}

static bool is_too_small(const struct update_sizes *s)
{
    return memory_bytes(s) * 100 < s->in->container.file_bytes * SHARE_THAT_SHOWS;
}

static bool has_shrunk(const struct update_sizes *s)
{
    return s->out->file_bytes < s->in->container.file_bytes;
}

void update_sizes_memory(const struct update_sizes *s, FILE *lines)
{
    char events[FORMAT_SIZE], share[FORMAT_SIZE];
    const char *file = strcmp(s->input, "-") == 0 ? "FILE" : s->input;
    bool shows = !is_too_small(s) && has_shrunk(s);
    if (!s->no_memory || (!lines && shows))
        return;
    FILE *to = lines ? lines : stderr;
    if (!lines)
        fputs("tidemark: ", to);
    if (s->stripped == 0) {
        fprintf(to, "%s: no memory allocations; see `tidemark verify %s`\n", s->input, file);
        return;
    }
    fprintf(to, "%s: %s, %s of the file", s->input,
            format_counted(events, s->stripped, "memory allocation"),
            format_percent(share, memory_bytes(s), s->in->container.file_bytes));
    if (shows)
        fputs(": the size shows that they were there\n", to);
    else
        fprintf(to, ", %s; see `tidemark verify %s`\n",
                is_too_small(s) ? "too small a part to judge by size"
                                : "but without them it is no smaller",
                file);
}

/* "zstd level 3 in 4 streams" */
static void put_compression(FILE *to, const struct container_options *o)
{
    static const char *const names[] = {[METHOD_LZ4] = "LZ4",
                                        [METHOD_LZ4_HC] = "LZ4 HC",
                                        [METHOD_LZ4_EXTREME] = "LZ4 HC at level 12",
                                        [METHOD_ZSTD] = "zstd"};
    fputs(names[o->method], to);
    if (o->method == METHOD_ZSTD)
        fprintf(to, " at level %d", o->level == CONTAINER_LEVEL_OWN ? 3 : o->level);
    fprintf(to, " in %u stream%s", o->streams, o->streams == 1 ? "" : "s");
}

void update_sizes_growth(const struct update_sizes *s)
{
    char percent[FORMAT_SIZE], bytes[FORMAT_SIZE];
    uint64_t in = s->in->container.file_bytes, out = s->out->file_bytes;
    if (out <= in + in / 100)
        return;
    fprintf(stderr, "tidemark: %s: %s larger than %s", s->output,
            format_percent(percent, out - in, in), s->input);
    if (s->out->inner_bytes > s->in->inner_bytes) {
        fprintf(stderr, ": uncompressed it holds %s more\n",
                format_bytes(bytes, s->out->inner_bytes - s->in->inner_bytes));
        return;
    }
    /* The same data in more bytes: only the compression differs. */
    fputs(", which is compressed more than by ", stderr);
    put_compression(stderr, &s->out->container);
    fputs("; -z LEVEL sets a higher level\n", stderr);
}
