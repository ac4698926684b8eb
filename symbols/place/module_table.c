#include "symbols/place/module_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/order.h"

/* Only files without a build id, so few. */
#define FILES_MAX 4096u

/* Limit of overlapping mappings checked per look-up. */
#define OVERLAPS_MAX 64u

void module_table_release(struct module_table *t)
{
    for (size_t i = 0; i < t->list.len; i++)
        free((char *)t->list.at[i].path);
    for (size_t i = 0; i < t->files.len; i++)
        free((char *)t->files.at[i].path);
    vec_release(&t->files);
    vec_release(&t->list);
    vec_release(&t->sorted);
}

/* Adds a mapping; copies the path. */
static int module_table_add(struct module_table *t, const struct module *m, struct err *e)
{
    struct module own = *m;
    if (t->list.len >= MODULES_MAX)
        return err_set(e, ERR_INPUT, "more than %zu mappings", MODULES_MAX);
    own.path = strdup(m->path);
    if (!own.path || !vec_push(&t->list, own)) {
        free((char *)own.path);
        return err_no_memory(e, "a module table");
    }
    return 0;
}

/* ---- lines */

static void skip_blanks(struct view *text)
{
    while (text->len > 0 && (*text->p == ' ' || *text->p == '\t')) {
        text->p++;
        text->len--;
    }
}

/* Takes the next word and the blanks after it. */
static struct view take_word(struct view *text)
{
    struct view word = {text->p, 0};
    while (word.len < text->len && text->p[word.len] != ' ' && text->p[word.len] != '\t')
        word.len++;
    text->p += word.len;
    text->len -= word.len;
    skip_blanks(text);
    return word;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse_hex(struct view word, uint64_t *out)
{
    *out = 0;
    if (word.len == 0 || word.len > 16)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        int digit = hex_digit(word.p[i]);
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

static bool parse_range(struct view word, uint64_t *start, uint64_t *end)
{
    const char *dash = word.len ? memchr(word.p, '-', word.len) : NULL;
    if (!dash)
        return false;
    size_t n = (size_t)(dash - word.p);
    return parse_hex((struct view){word.p, n}, start) &&
           parse_hex((struct view){dash + 1, word.len - n - 1}, end) && *start < *end;
}

static bool parse_build_id(struct view word, struct build_id *id)
{
    *id = (struct build_id){0};
    if (word.len == 1 && *word.p == '-')
        return true;
    if (word.len == 0 || word.len % 2 || word.len > (size_t)2 * BUILD_ID_MAX)
        return false;
    for (size_t i = 0; i < word.len; i += 2) {
        int high = hex_digit(word.p[i]), low = hex_digit(word.p[i + 1]);
        if (high < 0 || low < 0)
            return false;
        id->bytes[id->len++] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* "rwxp" and the like. */
static bool is_permissions(struct view word)
{
    if (word.len != 4)
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (word.p[i] != "rwx"[i] && word.p[i] != '-')
            return false;
    }
    return word.p[3] == 'p' || word.p[3] == 's';
}

/* Parses the rest of a line of /proc/PID/maps: "offset dev inode path". False if invalid. */
static bool parse_maps(struct view rest, struct module *m, struct view *path)
{
    uint64_t inode;
    bool ok = parse_hex(take_word(&rest), &m->offset);
    struct view device = take_word(&rest);
    struct view number = take_word(&rest);
    ok = ok && device.len > 0 && memchr(device.p, ':', device.len) && parse_hex(number, &inode);
    *path = rest;
    return ok;
}

/* The kernel appends this to the path of a mapped file that was removed or replaced. */
static void cut_deleted(struct view *path)
{
    static const char deleted[] = " (deleted)";
    size_t n = sizeof deleted - 1;
    if (path->len > n && memcmp(path->p + path->len - n, deleted, n) == 0)
        path->len -= n;
}

static bool parse_number(struct view word, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.p[i] < '0' || word.p[i] > '9' || word.len > 19)
            return false;
        *out = *out * 10 + (uint64_t)(word.p[i] - '0');
    }
    return word.len > 0;
}

static struct module_file *find_file(const struct module_table *t, struct view path)
{
    for (size_t i = 0; i < t->files.len; i++) {
        if (view_equal(view_of(t->files.at[i].path), path))
            return &t->files.at[i];
    }
    return NULL;
}

/* Parses the text after "#file". Invalid text counts as a comment. */
static int add_file(struct module_table *t, struct view line, struct err *e)
{
    struct module_file f = {.device = 0};
    skip_blanks(&line);
    bool ok = parse_number(take_word(&line), &f.device) &&
              parse_number(take_word(&line), &f.inode) && parse_number(take_word(&line), &f.size) &&
              parse_number(take_word(&line), &f.mtime);
    if (!ok || line.len == 0 || *line.p != '/' || memchr(line.p, 0, line.len) ||
        t->files.len >= FILES_MAX)
        return 0;
    struct module_file *known = find_file(t, line);
    if (known) {
        known->ambiguous |= known->device != f.device || known->inode != f.inode ||
                            known->size != f.size || known->mtime != f.mtime;
        return 0;
    }
    f.path = strndup(line.p, line.len);
    if (f.path && vec_push(&t->files, f))
        return 0;
    free((char *)f.path);
    return err_no_memory(e, "a module table");
}

const struct module_file *module_table_file(const struct module_table *t, struct view path)
{
    const struct module_file *f = find_file(t, path);
    return f && !f->ambiguous ? f : NULL;
}

bool module_file_is(const struct module_file *f, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode &&
           (uint64_t)st.st_size == f->size &&
           (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec == f->mtime;
}

int module_table_add_line(struct module_table *t, struct view line, struct err *e)
{
    static const char file[] = "#file ";
    const size_t prefix = sizeof file - 1;
    struct module m = {0};
    struct view path;
    skip_blanks(&line);
    if (line.len > 0 && line.p[line.len - 1] == '\r')
        line.len--;
    if (line.len > prefix && memcmp(line.p, file, prefix) == 0)
        return add_file(t, (struct view){line.p + prefix, line.len - prefix}, e);
    if (line.len == 0 || *line.p == '#')
        return 0;
    struct view range = take_word(&line);
    struct view second = take_word(&line);
    bool ok = parse_range(range, &m.start, &m.end);
    bool executable = true;
    if (ok && is_permissions(second)) {
        executable = second.p[2] == 'x';
        ok = parse_maps(line, &m, &path);
    } else if (ok) {
        ok = parse_hex(second, &m.offset) && parse_build_id(take_word(&line), &m.build_id);
        path = line;
    }
    if (!ok)
        return err_set(e, ERR_INPUT, "no mapping: START-END OFFSET BUILDID PATH is wanted");
    if (!executable || path.len == 0 || *path.p != '/' || memchr(path.p, 0, path.len))
        return 0;
    cut_deleted(&path);
    char *copy = strndup(path.p, path.len);
    if (!copy)
        return err_no_memory(e, "a module table");
    m.path = copy;
    int status = module_table_add(t, &m, e);
    free(copy);
    return status;
}

int module_table_add_text(struct module_table *t, struct view text, const char *name, struct err *e)
{
    for (size_t number = 1; text.len > 0; number++) {
        const char *end = memchr(text.p, '\n', text.len);
        struct view line = {text.p, end ? (size_t)(end - text.p) : text.len};
        if (module_table_add_line(t, line, e) != 0)
            return err_prefix(e, "%s: line %zu", name, number);
        size_t n = line.len + (end != NULL);
        text.p += n;
        text.len -= n;
    }
    return 0;
}

/* ---- look-ups */

static int compare(const void *a, const void *b, void *ctx)
{
    const struct module_table *t = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t left = t->list.at[x].start, right = t->list.at[y].start;
    if (left != right)
        return left < right ? -1 : 1;
    return x < y ? -1 : 1;
}

int module_table_sort(struct module_table *t, struct err *e)
{
    t->sorted.len = 0;
    t->longest = 0;
    if (!vec_reserve(&t->sorted, t->list.len))
        return err_no_memory(e, "a module table");
    for (size_t i = 0; i < t->list.len; i++) {
        uint64_t size = t->list.at[i].end - t->list.at[i].start;
        t->longest = size > t->longest ? size : t->longest;
        t->sorted.at[t->sorted.len++] = (uint32_t)i;
    }
    if (t->sorted.len > 1)
        qsort_r(t->sorted.at, t->sorted.len, sizeof *t->sorted.at, compare, t);
    return 0;
}

/* The number of mappings that start at or below an address. */
static size_t count_up_to(const struct module_table *t, uint64_t address)
{
    size_t low = 0;
    BISECT(low, t->sorted.len, i, t->list.at[t->sorted.at[i]].start <= address);
    return low;
}

const struct module *module_table_find(const struct module_table *t, uint64_t address,
                                       const char *path)
{
    const struct module *best = NULL;
    bool best_named = false;
    size_t i = count_up_to(t, address);
    for (unsigned looked = 0; i > 0 && looked < OVERLAPS_MAX; looked++) {
        const struct module *m = &t->list.at[t->sorted.at[--i]];
        if (address - m->start >= t->longest)
            break;
        if (address >= m->end)
            continue;
        bool named = path && strcmp(path, m->path) == 0;
        if (!best || (named && !best_named) || (named == best_named && m > best)) {
            best = m;
            best_named = named;
        }
    }
    return best;
}
