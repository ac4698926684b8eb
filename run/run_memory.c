#include "run/run_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/print_error.h"
#include "proc/memory_plots.h"
#include "server/capture/client_memory.h"

/* Notes only matter if this process is killed: without them it goes on. */
static void say_unnoted(struct err *e)
{
    err_prefix(e, "a recovered trace would lack what the kernel counts from now on");
    print_error(e);
}

static struct run_memory *open_process(const struct collected *of)
{
    struct run_memory *m = calloc(1, sizeof *m);
    struct err e = {0};
    if (!m)
        return NULL;
    (void)process_memory_open(&m->process, of->pid);
    if (kernel_notes_open(&m->notes, of->path, &e) != 0)
        say_unnoted(&e);
    return m;
}

/* As a plot. What was read before the trace began is dropped. */
static int add_reading(struct run_memory *m, const struct memory_reading *r, struct run_record *to,
                       struct err *e)
{
    int64_t begin = (int64_t)to->target.begin;
    if (begin < 0 || r->time < begin)
        return 0;
    return memory_plots_add(r, r->time - begin, &m->named, &to->ingest.sink, e);
}

static int keep_reading(struct run_memory *m, const struct memory_reading *r, struct run_record *to,
                        struct err *e)
{
    struct err unnoted = {0};
    bool moved = m->process.cgroups != m->cgroups;
    m->cgroups = m->process.cgroups;
    if ((moved && kernel_notes_add_cgroup(&m->notes, &m->process, &unnoted) != 0) ||
        kernel_notes_add_reading(&m->notes, r, &unnoted) != 0)
        say_unnoted(&unnoted);
    return add_reading(m, r, to, e);
}

/* Pools of CUDA's memory (client/gpu/gpu.c) show that the program uses a GPU. */
static bool uses_gpu(const struct trace *t)
{
    char room[32];
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        struct view name = trace_pool_name(t, t->memory.pools.at[i], room);
        if (name.len > 5 && memcmp(name.p, "CUDA ", 5) == 0)
            return true;
    }
    return false;
}

static int read_gpu(struct run_memory *m, struct gpu_driver *gpu, const struct collected *of,
                    struct run_record *to, struct err *e)
{
    struct memory_reading reading;
    if (!gpu || !uses_gpu(&to->trace))
        return 0;
    m->gpu_unknown = gpu_driver_read(gpu, of->pid, &reading);
    m->gpu_known |= !m->gpu_unknown;
    return m->gpu_unknown ? 0 : keep_reading(m, &reading, to, e);
}

int run_memory_read(struct run_memory **memory, bool pss, struct gpu_driver *gpu,
                    const struct collected *of, struct run_record *to, struct err *e)
{
    struct memory_reading reading;
    if (!*memory && !(*memory = open_process(of)))
        return err_no_memory(e, "plots of memory");
    if (pss)
        process_memory_pss(&(*memory)->process, &reading);
    else
        process_memory_read(&(*memory)->process, &reading);
    if (!pss)
        page_watch_take(&(*memory)->watch, &reading);
    if (keep_reading(*memory, &reading, to, e) != 0)
        return -1;
    return pss ? 0 : read_gpu(*memory, gpu, of, to, e);
}

void run_memory_free(struct run_memory *m)
{
    if (m) {
        process_memory_close(&m->process);
        kernel_notes_close(&m->notes);
        page_looks_release(&m->looks);
    }
    free(m);
}

int run_memory_look(struct run_memory **memory, enum look_reason reason, const struct collected *of,
                    struct err *e)
{
    struct page_look look;
    struct err unnoted = {0};
    if (!*memory && !(*memory = open_process(of)))
        return err_no_memory(e, "a look at the pages");
    if (page_watch_look(&(*memory)->watch, &(*memory)->process, reason, &look, e) != 0)
        return -1;
    if (kernel_notes_add_look(&(*memory)->notes, &look, &unnoted) != 0)
        say_unnoted(&unnoted);
    return page_looks_keep(&(*memory)->looks, &look) ? 0 : err_no_memory(e, "a look at the pages");
}

int run_memory_finish(struct run_memory *m, struct run_record *to, struct err *e)
{
    int64_t begin = (int64_t)to->target.begin;
    for (size_t i = 0; i < m->looks.list.len; i++) {
        struct page_look *l = &m->looks.list.at[i];
        if (begin < 0 || l->begin < begin)
            continue;
        struct page_look moved = *l;
        moved.begin -= begin;
        moved.end -= begin;
        if (!vec_push(&to->trace.looks.list, moved))
            return err_no_memory(e, "looks at the pages");
        *l = (struct page_look){0};
    }
    page_looks_sort(&to->trace.looks);
    return 0;
}

struct recovery {
    struct run_memory memory;
    struct run_record *to;
    struct buf cgroup; /* the last note of one */
};

static int take_note(void *ctx, struct kernel_note *note, struct err *e)
{
    struct recovery *r = ctx;
    if (note->kind == NOTE_READING)
        return add_reading(&r->memory, &note->reading, r->to, e);
    if (note->kind == NOTE_CGROUP) {
        buf_clear(&r->cgroup);
        buf_put(&r->cgroup, note->cgroup.p, note->cgroup.len);
        return r->cgroup.failed ? err_no_memory(e, "the cgroup") : 0;
    }
    if (r->memory.looks.list.len == LOOKS_MOST)
        return err_set(e, ERR_INPUT, "more than %u looks", LOOKS_MOST);
    struct page_look moved = note->look;
    note->look = (struct page_look){0};
    return page_looks_keep(&r->memory.looks, &moved) ? 0 : err_no_memory(e, "a look at the pages");
}

int run_memory_recover(const char *recording, struct run_record *to, struct err *e)
{
    struct recovery r = {.to = to};
    struct buf path = {0};
    buf_printf(&path, "%s" KERNEL_NOTES_ENDING, recording);
    int fd = path.failed ? -1 : open(buf_str(&path), O_RDONLY | O_CLOEXEC);
    int status = 0;
    if (path.failed)
        status = err_no_memory(e, "a name");
    else if (fd < 0 && errno != ENOENT)
        status = err_errno(e, ERR_INPUT, "cannot open");
    else if (fd >= 0)
        status = kernel_notes_read(fd, take_note, &r, e);
    if (fd >= 0)
        close(fd);
    if (status == 0)
        status = run_memory_finish(&r.memory, to, e);
    if (status == 0)
        status = client_memory_kills_since(buf_view(&r.cgroup), &to->trace, e);
    if (status != 0)
        err_prefix(e, "%s (without this file, the recording alone is recovered)", buf_str(&path));
    buf_release(&r.cgroup);
    page_looks_release(&r.memory.looks);
    buf_release(&path);
    return status;
}

static void move_looks(struct trace *from, int64_t (*time)(const void *, int64_t), const void *ctx,
                       struct trace *to)
{
    for (size_t i = 0; i < from->looks.list.len; i++) {
        struct page_look *l = &from->looks.list.at[i];
        l->begin = time(ctx, l->begin);
        l->end = time(ctx, l->end);
        l->end = l->end < l->begin ? l->begin : l->end;
    }
    page_looks_release(&to->looks);
    to->looks = from->looks;
    from->looks = (struct page_looks){0};
}

struct copy {
    const struct plots *from;
    int64_t (*time)(const void *, int64_t);
    const void *ctx;
    const struct event_sink *sink;
    uint32_t named;
};

static int copy_point(void *ctx, const struct plot_point *p, struct err *e)
{
    struct copy *c = ctx;
    uint64_t which = (c->from->list.at[p->plot].name - MEMORY_PLOT_KEY(0)) / 16;
    struct memory_reading one = {0};
    if (which >= MEMORY_VALUES)
        return 0;
    one.known = UINT32_C(1) << which;
    one.value[which] = p->value;
    return memory_plots_add(&one, c->time(c->ctx, p->time), &c->named, c->sink, e);
}

int run_memory_copy(struct trace *from, int64_t (*time)(const void *, int64_t), const void *ctx,
                    struct ingest *in, struct err *e)
{
    struct copy c = {.from = &from->plots, .time = time, .ctx = ctx, .sink = &in->sink};
    int status = plots_each(&from->plots, copy_point, &c, e);
    move_looks(from, time, ctx, in->trace);
    return status;
}
