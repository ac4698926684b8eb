#include "trace/store/strings.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Sizes of blocks shared by texts. Pageable blocks are large, as each may be a mapping. */
#define BLOCK_SIZE ((size_t)64 << 10)
#define BLOCK_SIZE_PAGEABLE ((size_t)4 << 20)

void strings_init(struct strings *s)
{
    *s = (struct strings){.limit = STRINGS_MAX};
}

void strings_use(struct strings *s, struct pageable *p)
{
    s->pageable = s->by_pointer.pageable = p;
}

static size_t table_bytes(const struct strings *s)
{
    return s->table ? (s->table_mask + 1) * sizeof *s->table : 0;
}

void strings_release(struct strings *s)
{
    for (size_t i = 0; i < s->blocks.len; i++)
        pageable_free(s->pageable, s->blocks.at[i].at, s->blocks.at[i].size);
    vec_release(&s->blocks);
    pageable_vec_release(s->pageable, &s->list);
    pageable_free(s->pageable, s->table, table_bytes(s));
    map_release(&s->by_pointer);
    *s = (struct strings){0};
}

static char *strings_block(struct strings *s, size_t size)
{
    struct string_block block = {pageable_resize(s->pageable, NULL, 0, size), size};
    if (block.at && !vec_push(&s->blocks, block)) {
        pageable_free(s->pageable, block.at, size);
        return NULL;
    }
    return block.at;
}

/* A copy of `text`, or NULL. A long text gets a separate block. */
static char *strings_copy(struct strings *s, struct view text)
{
    size_t need = text.len + 1, size = s->pageable ? BLOCK_SIZE_PAGEABLE : BLOCK_SIZE;
    char *p;
    if (need > size / 4) {
        p = strings_block(s, need);
    } else {
        if (need > s->room_left) {
            s->room = strings_block(s, size);
            s->room_left = s->room ? size : 0;
        }
        p = s->room;
    }
    if (!p)
        return NULL;
    if (p == s->room) {
        s->room += need;
        s->room_left -= need;
    }
    if (text.len)
        memcpy(p, text.p, text.len);
    p[text.len] = 0;
    return p;
}

uint32_t strings_append(struct strings *s, struct view text, struct err *e)
{
    if (s->list.len >= STRINGS_MAX) {
        err_set(e, ERR_INPUT, "more than %u strings", STRINGS_MAX);
        return 0;
    }
    if (text.len > STRING_TEXT_MAX) {
        err_set(e, ERR_INPUT, "a text of %zu bytes; at most %zu are possible", text.len,
                STRING_TEXT_MAX);
        return 0;
    }
    char *p = strings_copy(s, text);
    if (!p || !pageable_push(s->pageable, &s->list, (struct view){p, text.len})) {
        err_no_memory(e, "strings");
        return 0;
    }
    return (uint32_t)s->list.len;
}

static uint32_t hash_text(struct view text)
{
    return (uint32_t)map_hash(XXH3_64bits(text.p, text.len));
}

static bool strings_grow_table(struct strings *s)
{
    size_t n = s->table ? (s->table_mask + 1) * 2 : 256;
    struct string_slot *table = pageable_zeroed(s->pageable, n * sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; s->table && i <= s->table_mask; i++) {
        if (!s->table[i].number)
            continue;
        size_t at = s->table[i].hash & (n - 1);
        while (table[at].number)
            at = (at + 1) & (n - 1);
        table[at] = s->table[i];
    }
    pageable_free(s->pageable, s->table, table_bytes(s));
    s->table = table;
    s->table_mask = n - 1;
    return true;
}

void strings_clear(struct strings *s)
{
    const struct strings before = *s;
    strings_release(s);
    strings_init(s);
    s->limit = before.limit;
    strings_use(s, before.pageable);
}

/* The slot of the text, or where it would be. There must be a table. */
static struct string_slot *find_slot(const struct strings *s, struct view text, uint32_t hash)
{
    size_t at = hash & s->table_mask;
    for (; s->table[at].number; at = (at + 1) & s->table_mask) {
        const struct string_slot *slot = &s->table[at];
        if (slot->hash == hash && view_equal(s->list.at[slot->number - 1], text))
            break;
    }
    return &s->table[at];
}

uint32_t strings_restore(struct strings *s, struct view text, struct err *e)
{
    if ((!s->table || s->table_count >= (s->table_mask + 1) / 4 * 3) && !strings_grow_table(s)) {
        err_no_memory(e, "strings");
        return 0;
    }
    uint32_t hash = hash_text(text);
    struct string_slot *slot = find_slot(s, text, hash);
    uint32_t number = strings_append(s, text, e);
    if (number && !slot->number) {
        *slot = (struct string_slot){number, hash};
        s->table_count++;
    }
    return number;
}

/* At 99 % of the format's limit, new texts share one number and are counted. */
static bool strings_full(const struct strings *s)
{
    return s->list.len >= (uint64_t)s->limit * 99 / 100;
}

uint32_t strings_intern(struct strings *s, struct view text, struct err *e)
{
    if ((!s->table || s->table_count >= (s->table_mask + 1) / 4 * 3) && !strings_grow_table(s)) {
        err_no_memory(e, "strings");
        return 0;
    }
    uint32_t hash = hash_text(text);
    struct string_slot *slot = find_slot(s, text, hash);
    if (slot->number)
        return slot->number;
    if (strings_full(s)) {
        if (!s->other && !(s->other = strings_append(s, view_of("(other)"), e)))
            return 0;
        s->overflow++;
        return s->other;
    }
    uint32_t number = strings_append(s, text, e);
    if (number) {
        *slot = (struct string_slot){number, hash};
        s->table_count++;
    }
    return number;
}

int strings_bind(struct strings *s, uint64_t pointer, uint32_t number, struct err *e)
{
    bool fresh;
    uint64_t *value = map_add(&s->by_pointer, pointer, &fresh);
    if (!value)
        return err_no_memory(e, "strings");
    if (fresh)
        *value = number;
    return 0;
}

uint32_t strings_at_pointer(const struct strings *s, uint64_t pointer)
{
    const uint64_t *value = map_find(&s->by_pointer, pointer);
    return value ? (uint32_t)*value : 0;
}
