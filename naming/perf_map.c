#include "naming/perf_map.h"

#include <stdlib.h>
#include <string.h>

/* Other functions at an address that are counted; there may be more. */
#define COUNTED 64u

/* ---- lines */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Takes a hexadecimal number and the character behind it. */
bool perf_map_number(struct view *rest, char end, uint64_t *number)
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

void perf_entry_name(struct perf_entry *entry, struct view text)
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
    if (!perf_map_number(&line, ' ', &entry->start) || !perf_map_number(&line, ' ', &size) ||
        size == 0 || __builtin_add_overflow(entry->start, size, &entry->end) || line.len == 0)
        return false;
    perf_entry_name(entry, line);
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

void perf_map_order(struct perf_map *m)
{
    if (m->list.len)
        qsort(m->list.at, m->list.len, sizeof *m->list.at, compare_entries);
    (void)set_reach(m->list.at, m->list.len);
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
    perf_map_order(m);
    return 0;
}

void perf_map_release(struct perf_map *m)
{
    vec_release(&m->list);
    vec_release(&m->lines);
    *m = (struct perf_map){0};
}

/* ---- addresses */

struct perf_line perf_map_line(const struct perf_map *m, const struct perf_entry *entry,
                               uint64_t address)
{
    const struct perf_line *lines = entry->lines ? m->lines.at + entry->first_line : NULL;
    struct perf_line found = {.file = entry->file, .line = entry->line};
    size_t low = 0, high = entry->lines;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (lines[middle].offset <= address - entry->start)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return found;
    found.line = lines[low - 1].line;
    if (lines[low - 1].file.len)
        found.file = lines[low - 1].file;
    return found;
}

bool perf_map_same(const struct perf_map *m, const struct perf_entry *a, const struct perf_entry *b,
                   uint64_t address)
{
    struct perf_line x = perf_map_line(m, a, address), y = perf_map_line(m, b, address);
    return view_equal(a->function, b->function) && view_equal(x.file, y.file) && x.line == y.line;
}

static void search(const struct perf_entry *list, size_t n, struct perf_search *s)
{
    while (n && list[n / 2].reach > s->address && !s->more) {
        const struct perf_entry *root = &list[n / 2];
        search(list, n / 2, s);
        if (root->start > s->address)
            return;
        if (root->end > s->address && s->n == PERF_MAP_SEARCHED)
            s->more = true;
        else if (root->end > s->address)
            s->found[s->n++] = root;
        n -= n / 2 + 1;
        list = root + 1;
    }
}

void perf_map_search(const struct perf_map *m, uint64_t address, struct perf_search *s)
{
    s->address = address;
    s->n = 0;
    s->more = false;
    search(m->list.at, m->list.len, s);
}

bool perf_map_find(const struct perf_map *m, uint64_t address, struct perf_found *f)
{
    struct perf_search s;
    const struct perf_entry *kinds[COUNTED + 1]; /* all different, the newest first */
    const struct perf_entry *last = NULL;
    unsigned n = 0;
    perf_map_search(m, address, &s);
    for (size_t i = 0; i < s.n; i++) {
        if (!last || s.found[i]->number > last->number)
            last = s.found[i];
    }
    if (last)
        kinds[n++] = last;
    for (size_t i = 0; i < s.n && n <= COUNTED; i++) {
        bool counted = false;
        for (size_t k = 0; k < n && !counted; k++)
            counted = perf_map_same(m, s.found[i], kinds[k], address);
        if (!counted)
            kinds[n++] = s.found[i];
    }
    *f = (struct perf_found){.last = last};
    if (n > 1) {
        f->other = kinds[n - 1];
        f->others = n - 1;
    }
    f->others += s.more;
    return last;
}

int perf_map_inline(const struct perf_map *m, const struct perf_entry *entry, uint64_t address,
                    uint32_t name, struct trace *t, struct rec_inline_frame *in, struct err *e)
{
    struct perf_line line = {0};
    if (!name)
        line = perf_map_line(m, entry, address);
    *in = (struct rec_inline_frame){
        .function = name ? name : strings_intern(&t->strings, entry->function, e),
        .file = strings_intern(&t->strings, line.file.len ? line.file : view_of("[unknown]"), e),
        .line = line.file.len ? line.line : 0,
        .symbol = entry->start};
    return in->function && in->file ? 0 : -1;
}
