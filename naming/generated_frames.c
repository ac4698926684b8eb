#include "naming/generated_frames.h"

#include "naming/timed_frames.h"
#include "trace/store/frame_book.h"

/* "load", or of a reused address "load or store", "load or 3 other functions". */
static uint32_t name_of(struct trace *t, const struct perf_found *f, struct err *e)
{
    struct buf name = {0};
    if (!f->others)
        return strings_intern(&t->strings, f->last->function, e);
    buf_put(&name, f->last->function.p, f->last->function.len);
    if (f->others == 1 && f->other) {
        buf_puts(&name, " or ");
        buf_put(&name, f->other->function.p, f->other->function.len);
    } else {
        buf_printf(&name, " or %u other functions", f->others);
    }
    uint32_t number = name.failed ? (err_no_memory(e, "a name"), 0u)
                                  : strings_intern(&t->strings, buf_view(&name), e);
    buf_release(&name);
    return number;
}

/* Whether an address is in a file that was mapped: a fact `module` begins "START-END ". */
static bool is_in_file(const struct frame_book *book, uint64_t address)
{
    for (size_t i = 0; i < book->modules.len; i++) {
        struct view rest = book->modules.at[i];
        uint64_t start, end;
        if (perf_map_number(&rest, '-', &start) && perf_map_number(&rest, ' ', &end) &&
            address >= start && address < end)
            return true;
    }
    return false;
}

/* Frames of files get their names there. */
static bool is_generated(const struct trace *t, struct frame_book *book, size_t i)
{
    const struct frame *f = &t->callstacks.frames.at[i];
    return f->id >> 62 == 0 && !frame_book_is_named(book, i) &&
           frame_image_is_special(strings_get(&t->strings, f->image)) && !is_in_file(book, f->id);
}

struct applying {
    const struct perf_map *map;
    struct trace *trace;
    struct frame_book book;
    uint32_t image;
    struct generated_frames *names;
    struct timed_frames timed;
};

static int name_frame(struct applying *a, size_t i, struct err *e)
{
    struct perf_found found;
    struct rec_inline_frame in;
    uint32_t name = 0;
    uint64_t address = a->trace->callstacks.frames.at[i].id - !frame_book_is_exact(&a->book, i);
    if (!perf_map_find(a->map, address, &found))
        return 0;
    if (found.others && !(name = name_of(a->trace, &found, e)))
        return -1;
    if (perf_map_inline(a->map, found.last, address, name, a->trace, &in, e) != 0)
        return -1;
    a->names->named++;
    a->names->ambiguous += found.others > 0;
    if (found.others && a->map->timed &&
        timed_frames_add(&a->timed, a->map, (uint32_t)i, address, e) != 0)
        return -1;
    return frame_book_rename(&a->book, i, a->image, &in, 1, e);
}

int generated_frames_name(const struct perf_map *m, struct trace *t, uint64_t begin,
                          struct generated_frames *n, struct err *e)
{
    struct applying a = {.map = m, .trace = t, .names = n};
    *n = (struct generated_frames){0};
    if (m->list.len == 0)
        return 0;
    int status = frame_book_of_trace(&a.book, t, e);
    a.image = strings_intern(&t->strings, view_of(FRAME_IMAGE_GENERATED), e);
    if (!a.image)
        status = -1;
    for (size_t i = 0, all = t->callstacks.frames.len; i < all && status == 0; i++) {
        if (is_generated(t, &a.book, i))
            status = name_frame(&a, i, e);
    }
    if (status == 0)
        status = timed_frames_split(&a.timed, m, t, &a.book, begin, e);
    n->ambiguous -= a.timed.split;
    timed_frames_release(&a.timed);
    frame_book_release(&a.book);
    return status;
}
