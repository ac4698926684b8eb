#include "report/write/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "trace/store/store.h"

#define FIRST_NS UINT64_C(1000000000)
#define EVERY_NS UINT64_C(200000000)
#define SECOND_NS UINT64_C(1000000000)

struct progress progress_begin(uint64_t total, bool quiet)
{
    bool wanted = !quiet && isatty(STDERR_FILENO) == 1;
    uint64_t now = (uint64_t)monotonic_ns();
    return (struct progress){.total = wanted ? total : 0, .began = now, .next = now + FIRST_NS};
}

/* Whether this is the first look at a stage, which may have begun long after the one before. */
static bool is_new_stage(const struct progress *p, uint64_t done, uint64_t total)
{
    return p->of == 0 ? done < total / 8
                      : (unsigned __int128)done * p->of < (unsigned __int128)p->last * total;
}

static void show(struct progress *p, const char *stage, uint64_t done, uint64_t total)
{
    char percent[FORMAT_SIZE];
    uint64_t now = (uint64_t)monotonic_ns();
    if (total == 0 || done == 0)
        return;
    done = done < total ? done : total;
    if (is_new_stage(p, done, total)) {
        p->began = now;
        p->from = done;
    }
    p->last = done;
    p->of = total;
    if (now < p->next || done == p->from)
        return;
    uint64_t rest =
        (uint64_t)((unsigned __int128)(now - p->began) * (total - done) / (done - p->from));
    uint64_t seconds = rest / SECOND_NS + (rest % SECOND_NS != 0);
    fprintf(stderr, "\r\033[K%s%s, ", p->before ? p->before : stage,
            format_percent(percent, done, total));
    if (seconds < 60)
        fprintf(stderr, "%u s left", (unsigned)seconds);
    else
        fprintf(stderr, "%llu min left", (unsigned long long)(seconds + 59) / 60);
    p->next = now + EVERY_NS;
    p->shown = true;
}

void progress_show(struct progress *p, uint64_t done)
{
    show(p, "", done, p->total);
}

void progress_again(struct progress *p)
{
    progress_clear(p);
    p->began = (uint64_t)monotonic_ns();
    p->from = p->of = 0;
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

struct progress progress_of_file(const char *path, bool quiet)
{
    struct stat st;
    bool known = strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    return progress_begin(known ? (uint64_t)st.st_size : 0, quiet);
}

int progress_read(void *ctx, uint64_t file_bytes, struct err *e)
{
    struct progress *p = ctx;
    (void)e;
    if (file_bytes == UINT64_MAX)
        progress_again(p);
    else
        show(p, "reading: ", file_bytes, p->total);
    return 0;
}

static void progress_sweep(void *ctx, uint64_t done, uint64_t of)
{
    struct progress *p = ctx;
    if (p->total)
        show(p, "counting: ", done, of);
}

void progress_watch(struct progress *p, struct trace *t)
{
    t->loading = progress_read;
    t->sweeping = progress_sweep;
    t->loading_ctx = p;
}

void progress_unwatch(struct trace *t)
{
    t->loading = NULL;
    t->sweeping = NULL;
}

void progress_add(void *ctx, size_t n)
{
    struct progress *p = ctx;
    p->done += n;
    progress_show(p, p->done);
}

void progress_watch_events(struct progress *p, struct trace *t, unsigned passes, bool quiet)
{
    uint64_t elements = 0; /* an event is one of each column */
    for (size_t i = 0; i < t->memory.pools.len; i++)
        elements += t->memory.pools.at[i]->allocs.len + t->memory.pools.at[i]->frees.len;
    const char *before = p->before;
    *p = progress_begin(passes * elements, quiet);
    p->before = before;
    t->sweeping = NULL;
    t->spool.reading = progress_add;
    t->spool.reading_ctx = p;
}

void progress_unwatch_events(struct progress *p, struct trace *t)
{
    progress_clear(p);
    t->spool.reading = NULL;
}
