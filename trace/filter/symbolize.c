#include "trace/filter/symbolize.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "trace/filter/name_table.h"

struct answer {
    uint32_t name; /* string number; 0: none */
    uint32_t file; /* 0: file and line stay unchanged */
    uint32_t line;
};

struct image {
    uint32_t name; /* string number */
    VEC(uint64_t) offsets;
    VEC(struct answer) answers;
    struct map by_offset; /* offset → position */
};

struct symbolize {
    struct symbolize_options options;
    struct record_sink next;
    struct name_table table;
    size_t file_strings; /* number of the file's strings; higher numbers are new */
    VEC(struct image) images;
    struct map by_name; /* string number → position in images */
    uint64_t frames;
    uint32_t unresolved, unknown; /* string numbers that a reset uses */
};

int symbolize_open(struct symbolize **out, const struct symbolize_options *options, struct err *e)
{
    struct symbolize *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return err_no_memory(e, "the symbols of a trace");
    s->options = *options;
    name_table_init(&s->table);
    return 0;
}

void symbolize_free(struct symbolize *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->images.len; i++) {
        vec_release(&s->images.at[i].offsets);
        vec_release(&s->images.at[i].answers);
        map_release(&s->images.at[i].by_offset);
    }
    vec_release(&s->images);
    map_release(&s->by_name);
    name_table_release(&s->table);
    free(s);
}

/* ---- first pass */

/* The image of a string number, added if new. */
static struct image *image_of(struct symbolize *s, uint32_t name)
{
    bool fresh;
    uint64_t *position = map_add(&s->by_name, name, &fresh);
    if (!position)
        return NULL;
    if (fresh) {
        *position = s->images.len;
        if (!vec_push(&s->images, (struct image){.name = name}))
            return NULL;
    }
    return &s->images.at[*position];
}

static int collect(struct symbolize *s, uint32_t image_name, uint64_t offset, struct err *e)
{
    bool fresh;
    struct image *image = image_of(s, image_name);
    uint64_t *position = image ? map_add(&image->by_offset, offset, &fresh) : NULL;
    if (!position)
        return err_no_memory(e, "unresolved frames");
    if (!fresh)
        return 0;
    *position = image->offsets.len;
    if (vec_push(&image->offsets, offset) && vec_push(&image->answers, (struct answer){0, 0, 0}))
        return 0;
    return err_no_memory(e, "unresolved frames");
}

static bool is_unresolved(const struct symbolize *s, const struct rec_inline_frame *f)
{
    static const char text[] = SYMBOLIZE_UNRESOLVED;
    struct view name = strings_get(&s->table.strings, f->function);
    return s->options.reset ||
           (name.len >= sizeof text - 1 && memcmp(name.p, text, sizeof text - 1) == 0);
}

static int collect_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct symbolize *s = ctx;
    if (type != REC_CALLSTACK_FRAME)
        return name_table_put(&s->table, type, recs, n, e);
    const struct rec_callstack_frame *f = recs;
    s->frames += f->n;
    for (unsigned i = 0; i < f->n && s->options.resolve; i++) {
        if (is_unresolved(s, &f->inlines[i]) && collect(s, f->image, f->inlines[i].symbol, e) != 0)
            return -1;
    }
    return 0;
}

struct record_sink symbolize_collect_sink(struct symbolize *s)
{
    return (struct record_sink){.ctx = s, .put = collect_put};
}

void symbolize_wanted(bool *wanted)
{
    name_table_wanted(wanted);
    wanted[REC_CALLSTACK_FRAME] = true;
}

/* ---- between the passes */

size_t symbolize_images(const struct symbolize *s)
{
    return s->images.len;
}

struct view symbolize_image(const struct symbolize *s, size_t image)
{
    return strings_get(&s->table.strings, s->images.at[image].name);
}

const uint64_t *symbolize_offsets(const struct symbolize *s, size_t image, size_t *n)
{
    *n = s->images.at[image].offsets.len;
    return s->images.at[image].offsets.at;
}

uint64_t symbolize_frames(const struct symbolize *s)
{
    return s->frames;
}

/* Adds a string and returns its number. All strings of the file precede the new ones. */
static uint32_t new_string(struct symbolize *s, struct view text, struct err *e)
{
    if (s->file_strings == 0)
        s->file_strings = s->table.strings.list.len + 1;
    return strings_intern(&s->table.strings, text, e);
}

int symbolize_answer(struct symbolize *s, size_t image, size_t i, struct view name,
                     struct view file, uint32_t line, struct err *e)
{
    struct answer answer = {.line = line};
    answer.name = new_string(s, name, e);
    if (answer.name != 0 && file.len > 0)
        answer.file = new_string(s, file, e);
    if (answer.name == 0 || (file.len > 0 && answer.file == 0))
        return -1;
    s->images.at[image].answers.at[i] = answer;
    return 0;
}

/* ---- second pass */

static size_t added_strings(const struct symbolize *s)
{
    return s->file_strings ? s->table.strings.list.len - (s->file_strings - 1) : 0;
}

static int put_string_count(struct symbolize *s, const struct rec_count *count, struct err *e)
{
    if (s->options.reset && (!(s->unresolved = new_string(s, view_of(SYMBOLIZE_UNRESOLVED), e)) ||
                             !(s->unknown = new_string(s, view_of("[unknown]"), e))))
        return -1;
    struct rec_count all = {count->n + added_strings(s)};
    return record_put(&s->next, REC_STRINGS, &all, 1, e);
}

static int put_new_strings(struct symbolize *s, struct err *e)
{
    size_t n = added_strings(s);
    for (size_t i = s->table.strings.list.len - n; i < s->table.strings.list.len; i++) {
        struct rec_string string = {name_table_new_key(&s->table, e), s->table.strings.list.at[i]};
        if (string.key == 0 || record_put(&s->next, REC_STRING, &string, 1, e) != 0)
            return -1;
    }
    return 0;
}

static const struct answer *answer_for(const struct symbolize *s, uint32_t image_name,
                                       uint64_t offset)
{
    const uint64_t *at = map_find(&s->by_name, image_name);
    const struct image *image = at ? &s->images.at[*at] : NULL;
    const uint64_t *position = image ? map_find(&image->by_offset, offset) : NULL;
    return position ? &image->answers.at[*position] : NULL;
}

static void name_frame(const struct symbolize *s, uint32_t image, struct rec_inline_frame *f)
{
    bool open = s->options.resolve && is_unresolved(s, f);
    if (s->options.reset) {
        f->function = s->unresolved;
        f->file = s->unknown;
        f->line = 0;
    }
    const struct answer *answer = open ? answer_for(s, image, f->symbol) : NULL;
    if (!answer || answer->name == 0)
        return;
    f->function = answer->name;
    if (answer->file != 0) {
        f->file = answer->file;
        f->line = answer->line;
    }
}

static int put_frame(struct symbolize *s, const struct rec_callstack_frame *frame, struct err *e)
{
    struct rec_inline_frame inlines[UINT8_MAX];
    struct rec_callstack_frame named = *frame;
    memcpy(inlines, frame->inlines, frame->n * sizeof *inlines);
    for (unsigned i = 0; i < frame->n; i++)
        name_frame(s, frame->image, &inlines[i]);
    named.inlines = inlines;
    return record_put(&s->next, REC_CALLSTACK_FRAME, &named, 1, e);
}

static int symbolize_put(void *ctx, enum record_type type, const void *recs, size_t n,
                         struct err *e)
{
    struct symbolize *s = ctx;
    if (type == REC_STRINGS)
        return put_string_count(s, recs, e);
    if (type == REC_STRING_POINTERS && put_new_strings(s, e) != 0)
        return -1;
    if (type == REC_CALLSTACK_FRAME)
        return put_frame(s, recs, e);
    return record_put(&s->next, type, recs, n, e);
}

struct record_sink symbolize_sink(struct symbolize *s, const struct record_sink *next)
{
    s->next = *next;
    return (struct record_sink){.ctx = s, .put = symbolize_put};
}
