#include "server/capture/stored_summary.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/figures/sites.h"
#include "analysis/figures/summary_facts.h"
#include "analysis/questions/figure_parts.h"
#include "analysis/questions/near_limit.h"
#include "analysis/questions/resident.h"
#include "base/file_io.h"
#include "base/print_error.h"
#include "trace/file/appendix.h"
#include "trace/file/writer.h"
#include "trace/filter/convert.h"
#include "trace/load/load.h"
#include "trace/load/load_beside.h"
#include "trace/load/load_replay.h"
#include "trace/save/save.h"

#define LENGTH_BYTES 8u

int saved_facts_write(struct trace *t, struct err *e)
{
    struct err unknown = {0};
    if (figure_parts_note(t, e) != 0 || summary_write_facts(t, e) != 0 ||
        (!t->memory.only.is && resident_note(t, e) != 0) || gpu_use_note(t, e) != 0)
        return -1;
    if (near_limit_note(t, &unknown) != 0) {
        err_prefix(&unknown, "what grew near the limit of the memory cgroup is not known");
        print_error(&unknown);
    }
    return 0;
}

/* Bytes of looks at pages, which take 64 KiB for each resident GiB at most. */
#define PAGES_MOST ((uint64_t)256 << 20)

/*
 * The stored summary may take this share of the file, and its names so many bytes before
 * compression.
 */
#define SHARE 8u
#define NAMES_MOST ((uint64_t)64 << 20)

/* Frees to come and the log, while counting within a memory limit. */
#define COUNTING_NEEDS ((uint64_t)32 << 20)

/* ---- storing */

static uint64_t events_of(const struct trace *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        n += t->memory.pools.at[i]->totals.allocations + t->memory.pools.at[i]->totals.frees;
    return n;
}

static bool may_append(const struct saved_summary *s)
{
    return save_may_append(s->options->layout->version, &s->options->container);
}

static bool is_worth_while(const struct saved_summary *s)
{
    return may_append(s) && events_of(s->trace) >= STORED_SUMMARY_EVENTS;
}

/* Passed between saving and conversion: stops when the names exceed their limit. */
struct names_bound {
    struct record_sink to;
    uint64_t left; /* bytes */
};

static int put_bounded(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct names_bound *b = ctx;
    uint64_t bytes = n * record_size(type);
    if (type == REC_STRING)
        bytes += ((const struct rec_string *)recs)->text.len;
    if (type == REC_CALLSTACK)
        bytes += ((const struct rec_callstack *)recs)->len * sizeof(uint64_t);
    if (bytes > b->left)
        return err_set(e, ERR_OUTPUT, "more names than are stored beside a trace");
    b->left -= bytes;
    return record_put(&b->to, type, recs, n, e);
}

static int write_names(struct trace *t, int fd, const struct file_layout *layout, uint64_t most,
                       struct err *e)
{
    struct trace_writer_options to = trace_writer_options_default();
    const struct convert_options conversion = {.target = layout, .spill_dir = t->spool.dir};
    struct trace_write_stats stats;
    struct trace_writer *writer = NULL;
    struct convert *convert = NULL;
    to.layout = layout;
    to.container.streams = 1; /* only Tidemark reads it */
    int status = trace_writer_open(&writer, fd, &to, e);
    if (status == 0) {
        struct record_sink sink = trace_writer_sink(writer);
        status = convert_open(&convert, &sink, &conversion, e);
    }
    if (status == 0) {
        struct names_bound bound = {convert_sink(convert), most};
        const struct record_sink sink = {&bound, put_bounded};
        status = trace_save_names(t, &sink, e);
    }
    if (status == 0)
        status = trace_writer_finish(writer, &stats, e);
    convert_free(convert);
    trace_writer_free(writer);
    return status;
}

/* Writes a section at the end of `fd`, *at, and advances that. */
static int put_section(int fd, uint64_t *at, enum appendix_kind kind, struct view bytes,
                       struct err *e)
{
    uint8_t head[APPENDIX_SECTION_HEAD];
    store_u32(head, kind);
    store_u32(head + 4, APPENDIX_VERSION);
    store_u64(head + 8, bytes.len);
    if (file_write(fd, head, sizeof head, *at) != 0 ||
        file_write(fd, bytes.p, bytes.len, *at + sizeof head) != 0)
        return err_errno(e, ERR_OUTPUT, "data beside the trace");
    *at += sizeof head + bytes.len;
    return 0;
}

/* The same with bytes that `encode` made. */
static int put_buffer(int fd, uint64_t *at, enum appendix_kind kind, struct buf *bytes,
                      uint64_t most, struct err *e)
{
    int status = bytes->failed       ? err_no_memory(e, "data beside the trace")
                 : bytes->len > most ? err_set(e, ERR_OUTPUT, "too much to store beside a trace")
                                     : put_section(fd, at, kind, buf_view(bytes), e);
    buf_release(bytes);
    return status;
}

static int put_names(const struct saved_summary *s, int fd, uint64_t *at, uint64_t most,
                     struct err *e)
{
    struct stat st;
    uint64_t head = *at, begin = head + APPENDIX_SECTION_HEAD, no = 0;
    if (put_section(fd, &head, APPENDIX_NAMES, (struct view){(const char *)&no, 0}, e) != 0)
        return -1;
    if (lseek(fd, (off_t)begin, SEEK_SET) < 0)
        return err_errno(e, ERR_OUTPUT, "names beside the trace");
    if (write_names(s->trace, fd, s->options->layout, most, e) != 0)
        return -1;
    uint8_t length[LENGTH_BYTES];
    if (fstat(fd, &st) != 0)
        return err_errno(e, ERR_OUTPUT, "names beside the trace");
    store_u64(length, (uint64_t)st.st_size - begin);
    if (file_write(fd, length, sizeof length, *at + 8) != 0)
        return err_errno(e, ERR_OUTPUT, "names beside the trace");
    *at = (uint64_t)st.st_size;
    return 0;
}

static int put_figures(const struct saved_summary *s, const struct stored_figures *figures, int fd,
                       uint64_t *at, uint64_t most, struct err *e)
{
    struct buf bytes = {0};
    stored_figures_encode(figures, &bytes);
    if (put_buffer(fd, at, APPENDIX_FIGURES, &bytes, most, e) != 0 ||
        put_names(s, fd, at, most, e) != 0)
        return -1;
    stored_times_encode(figures, s->trace, &bytes);
    return put_buffer(fd, at, APPENDIX_TIMES, &bytes, most, e);
}

/* Looks at the pages, and what each call stack had in memory. */
static int put_looks(const struct trace *t, int fd, uint64_t *at, struct err *e)
{
    struct buf looks = {0}, stacks = {0};
    if (t->looks.list.len) {
        page_looks_encode(&t->looks, &looks);
        if (put_buffer(fd, at, APPENDIX_PAGES, &looks, PAGES_MOST, e) != 0)
            return -1;
    }
    if (!t->resident.known)
        return 0;
    resident_stacks_encode(&t->resident, &stacks);
    return put_buffer(fd, at, APPENDIX_RESIDENT, &stacks, PAGES_MOST, e);
}

static int append_file(int to, int from, uint64_t bytes, struct err *e)
{
    void *at = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, from, 0);
    if (at == MAP_FAILED)
        return err_errno(e, ERR_OUTPUT, "data beside the trace");
    int status = appendix_write(to, (struct view){at, (size_t)bytes}, e);
    munmap(at, (size_t)bytes);
    return status;
}

static void tell_lost(const struct trace *t, int status, struct err *e)
{
    if (status == 0 || !t->looks.list.len)
        return;
    err_prefix(e, "the trace is saved without what was in memory (`report --resident`)");
    print_error(e);
}

/*
 * What has no room is left out: the looks, or the figures with their names. Only the loss of looks
 * is printed: figures can be counted again.
 */
static void store(const struct saved_summary *s, const struct stored_figures *figures, int fd)
{
    struct stat st;
    struct err e = {0}, ignored = {0};
    uint8_t first[LENGTH_BYTES];
    uint64_t at = sizeof first;
    int content = memfd_create("figures", MFD_CLOEXEC);
    store_u64(first, APPENDIX_SECTIONS);
    if (content >= 0 && fstat(fd, &st) == 0 && file_write(content, first, sizeof first, 0) == 0) {
        uint64_t file = (uint64_t)st.st_size, before;
        uint64_t most = file < NAMES_MOST ? file : NAMES_MOST;
        before = at;
        int status = put_looks(s->trace, content, &at, &e);
        at = status == 0 ? at : before;
        before = at;
        if (figures && (put_figures(s, figures, content, &at, most, &ignored) != 0 ||
                        at - before > file / SHARE))
            at = before;
        if (at > sizeof first && append_file(fd, content, at, status == 0 ? &e : &ignored) != 0)
            status = -1;
        tell_lost(s->trace, status, &e);
    } else {
        tell_lost(s->trace, err_errno(&e, ERR_OUTPUT, "data beside the trace"), &e);
    }
    if (content >= 0)
        close(content);
}

/* ---- counting during a save */

uint64_t saved_summary_needs(const struct trace *t)
{
    uint64_t callstacks = t->callstacks.list.len + 1;
    return COUNTING_NEEDS + callstacks * sizeof(struct counter_page) / COUNTER_PAGE_KEYS;
}

static void stop_counting(struct saved_summary *s)
{
    if (s->counting)
        stream_figures_release(&s->counted);
    s->counting = false;
}

/* The save may have failed before, and begins again. */
static void begin_counting(struct saved_summary *s)
{
    struct err ignored = {0};
    stop_counting(s);
    if (s->no_counting || (s->only_to_store && !is_worth_while(s)))
        return;
    stream_figures_init(&s->counted, s->trace);
    s->counted.of_store = true;
    s->counting = true;
    if (s->bounded && stream_figures_bound(&s->counted, COUNTING_NEEDS, &ignored) != 0)
        stop_counting(s);
}

/* The save goes on if counting fails. */
static int count_records(void *ctx, enum record_type type, const void *recs, size_t n,
                         struct err *e)
{
    struct saved_summary *s = ctx;
    (void)e;
    if (type == REC_POOLS)
        begin_counting(s);
    s->counting = s->counting && stream_figures_try(&s->counted, type, recs, n);
    return 0;
}

void saved_summary_attach(struct saved_summary *s, struct trace *t, struct save_options *options)
{
    *s = (struct saved_summary){.trace = t, .options = options};
    s->sink = (struct record_sink){.ctx = s, .put = count_records};
    options->beside = &s->sink;
    options->append = saved_summary_append;
    options->append_ctx = s;
}

int saved_summary_append(void *ctx, int fd, struct err *e)
{
    struct saved_summary *s = ctx;
    struct stored_figures figures;
    bool storable = false;
    struct summary_options options = {.by = GROUP_SITE, .skip = s->skip, .callers = true};
    struct err ignored = {0};
    (void)e;
    if (s->made)
        summary_release(&s->summary);
    s->made = false;
    if (s->counting) {
        stream_figures_end(&s->counted);
        options.stream = &s->counted;
    }
    if (is_worth_while(s)) {
        options.store = &figures;
        options.storable = &storable;
    }
    if (options.store || !s->only_to_store)
        s->made = summary_build(&s->summary, s->trace, &options, &ignored) == 0;
    bool figures_fit = storable && s->made;
    if (figures_fit || (s->trace->looks.list.len && may_append(s)))
        store(s, figures_fit ? &figures : NULL, fd);
    if (storable)
        stored_figures_release(&figures);
    stop_counting(s);
    return 0;
}

static int append_pages(void *ctx, int fd, struct err *e)
{
    const struct saved_summary *s = ctx;
    (void)e;
    if (s->trace->looks.list.len && may_append(s))
        store(s, NULL, fd);
    return 0;
}

void saved_pages_attach(struct saved_summary *s, struct trace *t, struct save_options *options)
{
    *s = (struct saved_summary){.trace = t, .options = options};
    options->append = append_pages;
    options->append_ctx = s;
}

void saved_summary_release(struct saved_summary *s)
{
    stop_counting(s);
    if (s->made)
        summary_release(&s->summary);
    s->made = false;
}

/* ---- loading */

static bool fits(const struct stored_figures *f, const struct trace *t, const struct skiplist *skip)
{
    struct sites sites;
    struct err e = {0};
    if (sites_build(&sites, t, skip, SITE_BY_LINE, &e) != 0)
        return false;
    const struct site_map map = {sites.of_callstack, sites.callstack_count};
    bool fit = stored_figures_fit(f, t, &map);
    sites_release(&sites);
    return fit;
}

static int load_names(struct trace *t, struct view file, const char *path, struct err *e)
{
    static const struct trace_load_options options = {.no_events = true};
    int fd = memfd_create("names", MFD_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_OUTPUT, "names beside the trace");
    int status = file_write(fd, file.p, file.len, 0) != 0
                     ? err_errno(e, ERR_OUTPUT, "names beside the trace")
                     : trace_load_fd(t, fd, path, &options, NULL, NULL, e);
    close(fd);
    return status;
}

/* The pools are there. */
static int load_times(struct trace *t, const struct appendix *a, struct err *e)
{
    struct view bytes;
    return appendix_find(a, APPENDIX_TIMES, &bytes)
               ? stored_times_take(t, bytes, e)
               : err_set(e, ERR_INPUT, "no times beside the trace");
}

/* With the figures, the names, and what `more` loads of the content. */
static bool load_content(struct stored_figures *f, struct trace *t, const struct appendix *a,
                         const char *path,
                         int (*more)(struct trace *t, const struct appendix *a, struct err *e))
{
    struct err e = {0};
    struct view figures, names;
    if (!appendix_find(a, APPENDIX_FIGURES, &figures) ||
        !appendix_find(a, APPENDIX_NAMES, &names) || stored_figures_decode(f, figures, &e) != 0)
        return false;
    if (load_names(t, names, path, &e) == 0 && stored_figures_make_pools(f, t, &e) == 0 &&
        more(t, a, &e) == 0)
        return true;
    stored_figures_release(f);
    return false;
}

/* The trace as it was before, watched as before. */
static int renew(struct trace *t, struct err *e)
{
    const struct trace_options again = {.resident_budget = t->memory_budget};
    const struct trace before = *t;
    trace_release(t);
    int status = trace_init(t, &again, e) != 0 ? -1 : 0;
    t->loading = before.loading;
    t->sweeping = before.sweeping;
    t->loading_ctx = before.loading_ctx;
    return status;
}

int stored_summary_load(struct stored_figures *f, struct trace *t, const char *path,
                        const struct skiplist *skip, struct err *e)
{
    struct appendix a;
    if (!trace_read_appendix(path, &a))
        return 0;
    bool loaded = load_content(f, t, &a, path, trace_take_resident);
    free(a.content);
    if (loaded && fits(f, t, skip))
        return 1;
    if (loaded)
        stored_figures_release(f);
    return renew(t, e);
}

int stored_names_load(struct trace *t, const char *path, bool in_turn, struct err *e)
{
    struct appendix a;
    struct stored_figures f;
    struct err ignored = {0};
    int fd = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return 0;
    if (appendix_read(fd, &a, &ignored) != 1) {
        close(fd);
        return 0;
    }
    bool loaded = load_content(&f, t, &a, path, load_times);
    free(a.content);
    if (loaded)
        stored_figures_release(&f);
    if (loaded && trace_replay(t, fd, path, in_turn))
        return 1;
    close(fd);
    return renew(t, e);
}

/* As stored_summary_figures; *bytes: the size of the appendix. */
static bool read_figures(struct stored_figures *f, const struct trace *t, const char *path,
                         uint64_t *bytes)
{
    struct appendix a;
    struct view figures;
    struct err e = {0};
    if (!trace_read_appendix(path, &a))
        return false;
    bool there =
        appendix_find(&a, APPENDIX_FIGURES, &figures) && stored_figures_decode(f, figures, &e) == 0;
    *bytes = a.file_bytes - a.trace_bytes;
    free(a.content);
    if (there && fits(f, t, NULL))
        return true;
    if (there)
        stored_figures_release(f);
    return false;
}

bool stored_summary_figures(struct stored_figures *f, const struct trace *t, const char *path)
{
    uint64_t bytes;
    return read_figures(f, t, path, &bytes);
}

uint64_t stored_summary_bytes(const struct trace *t, const char *path)
{
    struct stored_figures f;
    uint64_t bytes;
    if (!read_figures(&f, t, path, &bytes))
        return 0;
    stored_figures_release(&f);
    return bytes;
}

static bool copy_section(const struct appendix *a, enum appendix_kind kind, struct buf *to)
{
    struct view bytes;
    if (!appendix_find(a, kind, &bytes))
        return false;
    buf_u32(to, kind);
    buf_u32(to, APPENDIX_VERSION);
    buf_u64(to, bytes.len);
    buf_put(to, bytes.p, bytes.len);
    return true;
}

int stored_pages_keep(const char *input, int fd, bool fits, bool figures, struct err *cause)
{
    struct appendix a;
    struct buf content = {0};
    struct err e = {0};
    if (!trace_read_appendix(input, &a))
        return 0;
    buf_u64(&content, APPENDIX_SECTIONS);
    bool found = copy_section(&a, APPENDIX_PAGES, &content);
    found |= copy_section(&a, APPENDIX_RESIDENT, &content);
    bool only = figures && copy_section(&a, APPENDIX_ONLY, &content);
    free(a.content);
    if (only && !fits) {
        buf_release(&content);
        return memory_refuse("the figures do not go with a selection, with versions before 0.11.0, "
                             "or with LZ4; -s M removes them",
                             cause);
    }
    found |= only;
    int status = !found           ? 0
                 : !fits          ? err_set(&e, ERR_OUTPUT, "%s", input)
                 : content.failed ? err_no_memory(&e, "data beside the trace")
                                  : appendix_write(fd, buf_view(&content), &e);
    if (status != 0 && only) {
        *cause = e;
    } else if (status != 0) {
        err_prefix(&e, "what was in memory (`report --resident`) is not kept");
        print_error(&e);
    }
    buf_release(&content);
    return status != 0 && only ? -1 : 0;
}
