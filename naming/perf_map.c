#include "naming/perf_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/store/frame_book.h"

/* Entries over one address that a search takes; there may be more. */
#define SEARCHED 64u

/* ---- lines */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Takes a hexadecimal number and the character behind it. */
static bool take_number(struct view *rest, char end, uint64_t *number)
{
    size_t i = 0;
    if (rest->len > 2 && rest->p[0] == '0' && rest->p[1] == 'x')
        i = 2;
    size_t begin = i;
    for (*number = 0; i < rest->len && hex_digit(rest->p[i]) >= 0; i++) {
        if (*number >> 60)
            return false;
        *number = *number << 4 | (uint64_t)hex_digit(rest->p[i]);
    }
    if (i == begin || i == rest->len || rest->p[i] != end)
        return false;
    *rest = (struct view){rest->p + i + 1, rest->len - i - 1};
    return true;
}

/* Cuts ":123" off the end of a text. */
static bool cut_number(struct view *text, uint32_t *number)
{
    size_t i = text->len;
    uint32_t scale = 1;
    for (*number = 0; i && text->p[i - 1] >= '0' && text->p[i - 1] <= '9' && scale < 1000000000;
         scale *= 10)
        *number += (uint32_t)(text->p[--i] - '0') * scale;
    if (i == text->len || i == 0 || text->p[i - 1] != ':')
        return false;
    text->len = i - 1;
    return true;
}

static bool take_prefix(struct view *text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (text->len < n || memcmp(text->p, prefix, n) != 0)
        return false;
    *text = (struct view){text->p + n, text->len - n};
    return true;
}

/* V8's: "*load /srv/app.js:12:3". A file's name may have blanks; a function's rarely has. */
static void take_script(struct perf_entry *entry, struct view text)
{
    uint32_t column;
    if (text.len && strchr("*^+~", text.p[0]))
        text = (struct view){text.p + 1, text.len - 1};
    const char *blank = text.len ? memchr(text.p, ' ', text.len) : NULL;
    entry->function = text;
    if (!blank)
        return;
    struct view file = {blank + 1, text.len - (size_t)(blank + 1 - text.p)};
    if (!cut_number(&file, &column) || !cut_number(&file, &entry->line))
        return;
    (void)take_prefix(&file, "file://");
    entry->file = file;
    entry->function.len = (size_t)(blank - text.p);
    if (entry->function.len == 0)
        entry->function = view_of("(anonymous)");
}

/* "J.load" of "void J.load(int)". */
static bool take_method(struct perf_entry *entry, struct view text)
{
    const char *blank = text.len ? memchr(text.p, ' ', text.len) : NULL;
    const char *open = blank ? memchr(blank, '(', text.len - (size_t)(blank - text.p)) : NULL;
    if (!open || text.p[text.len - 1] != ')' || !memchr(blank, '.', (size_t)(open - blank)))
        return false;
    entry->function = (struct view){blank + 1, (size_t)(open - blank - 1)};
    return true;
}

static void take_name(struct perf_entry *entry, struct view text)
{
    static const char *const scripts[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (take_prefix(&text, scripts[i])) {
            take_script(entry, text);
            return;
        }
    }
    if (take_method(entry, text))
        return;
    entry->function = text;
    if (take_prefix(&text, "py::")) {
        const char *colon = text.len ? memchr(text.p, ':', text.len) : NULL;
        entry->function = text;
        if (!colon)
            return;
        entry->function.len = (size_t)(colon - text.p);
        entry->file = (struct view){colon + 1, text.len - entry->function.len - 1};
    }
}

static bool take_line(struct perf_entry *entry, struct view line)
{
    uint64_t size;
    if (!take_number(&line, ' ', &entry->start) || !take_number(&line, ' ', &size) || size == 0 ||
        __builtin_add_overflow(entry->start, size, &entry->end) || line.len == 0)
        return false;
    take_name(entry, line);
    return entry->function.len > 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct perf_entry *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The list is a search tree: its middle is the root, both halves are its subtrees. */
static uint64_t set_reach(struct perf_entry *list, size_t n)
{
    if (n == 0)
        return 0;
    struct perf_entry *root = &list[n / 2];
    uint64_t before = set_reach(list, n / 2), after = set_reach(root + 1, n - n / 2 - 1);
    root->reach = before > after ? before : after;
    return root->reach = root->end > root->reach ? root->end : root->reach;
}

int perf_map_parse(struct perf_map *m, struct view text, struct err *e)
{
    uint32_t number = 0;
    *m = (struct perf_map){0};
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.p + at, '\n', text.len - at);
        size_t n = end ? (size_t)(end - text.p) - at : text.len - at;
        struct perf_entry entry = {.number = number++};
        if (!take_line(&entry, (struct view){text.p + at, n}))
            m->malformed++;
        else if (!vec_push(&m->list, entry))
            return err_no_memory(e, "names of generated code");
        at += n + 1;
    }
    if (m->list.len)
        qsort(m->list.at, m->list.len, sizeof *m->list.at, compare_entries);
    (void)set_reach(m->list.at, m->list.len);
    return 0;
}

void perf_map_release(struct perf_map *m)
{
    vec_release(&m->list);
    *m = (struct perf_map){0};
}

/* ---- addresses */

static bool is_same(const struct perf_entry *a, const struct perf_entry *b)
{
    return view_equal(a->function, b->function) && view_equal(a->file, b->file) &&
           a->line == b->line;
}

struct search {
    uint64_t address;
    const struct perf_entry *found[SEARCHED];
    size_t n;
    bool more; /* than there is room for */
};

static void search(const struct perf_entry *list, size_t n, struct search *s)
{
    while (n && list[n / 2].reach > s->address && !s->more) {
        const struct perf_entry *root = &list[n / 2];
        search(list, n / 2, s);
        if (root->start > s->address)
            return;
        if (root->end > s->address && s->n == SEARCHED)
            s->more = true;
        else if (root->end > s->address)
            s->found[s->n++] = root;
        n -= n / 2 + 1;
        list = root + 1;
    }
}

bool perf_map_find(const struct perf_map *m, uint64_t address, struct perf_found *f)
{
    struct search s = {.address = address};
    *f = (struct perf_found){0};
    search(m->list.at, m->list.len, &s);
    for (size_t i = 0; i < s.n; i++) {
        if (!f->last || s.found[i]->number > f->last->number)
            f->last = s.found[i];
    }
    for (size_t i = 0; i < s.n; i++) {
        bool counted = is_same(s.found[i], f->last);
        for (size_t k = 0; k < i && !counted; k++)
            counted = is_same(s.found[i], s.found[k]);
        if (counted)
            continue;
        f->other = s.found[i];
        f->others++;
    }
    f->others += s.more;
    return f->last;
}

/* ---- frames */

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
        if (take_number(&rest, '-', &start) && take_number(&rest, ' ', &end) && address >= start &&
            address < end)
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

static int name_frame(const struct perf_map *m, struct trace *t, struct frame_book *book, size_t i,
                      struct perf_map_names *n, struct err *e)
{
    struct perf_found found;
    uint64_t id = t->callstacks.frames.at[i].id;
    if (!perf_map_find(m, id - !frame_book_is_exact(book, i), &found))
        return 0;
    bool placed = !found.others && found.last->file.len;
    struct view file = placed ? found.last->file : view_of("[unknown]");
    const struct frame_inline in = {.function = name_of(t, &found, e),
                                    .file = strings_intern(&t->strings, file, e),
                                    .line = placed ? found.last->line : 0,
                                    .symbol = found.last->start};
    uint32_t image = strings_intern(&t->strings, view_of(FRAME_IMAGE_GENERATED), e);
    if (!in.function || !in.file || !image)
        return -1;
    n->named++;
    n->ambiguous += found.others > 0;
    return frame_book_rename(book, i, image, &in, 1, e);
}

int perf_map_apply(const struct perf_map *m, struct trace *t, struct perf_map_names *n,
                   struct err *e)
{
    struct frame_book book = {0};
    *n = (struct perf_map_names){0};
    if (m->list.len == 0)
        return 0;
    int status = frame_book_of_trace(&book, t, e);
    for (size_t i = 0; i < t->callstacks.frames.len && status == 0; i++) {
        if (is_generated(t, &book, i))
            status = name_frame(m, t, &book, i, n, e);
    }
    frame_book_release(&book);
    return status;
}

int perf_map_name(struct view text, struct trace *t, struct err *e)
{
    struct perf_map m;
    struct perf_map_names n = {0};
    int status = perf_map_parse(&m, text, e);
    if (status == 0)
        status = perf_map_apply(&m, t, &n, e);
    perf_map_release(&m);
    if (status != 0 || n.named == 0)
        return status;
    return trace_add_fact(t, e, "generated_code", "%" PRIu64 " ambiguous %" PRIu64, n.named,
                          n.ambiguous);
}
