#include "import/value_arena.h"

/*
 * A node is self-delimiting, all numbers in it are LEB128:
 *     text: length, bytes
 *     wide integer: 8 bytes
 *     list: the list it continues, count, items
 *     dictionary: the one it continues, count, list of keys, values
 * Offset 0 is no node, so a list or dictionary at it is an empty one.
 */

/* Nodes whose bytes a later one can share: 8 MiB of offsets. */
#define RECENT_LEAST ((size_t)1 << 10)
#define RECENT_MOST ((size_t)1 << 20)

#define INT_BITS 60

void value_arena_release(struct value_arena *a)
{
    buf_release(&a->bytes);
    buf_release(&a->node);
    free(a->recent);
    *a = (struct value_arena){0};
}

/* ---- adding */

static void put_number(struct buf *to, uint64_t number)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; number > 0x7f; number >>= 7)
        bytes[n++] = (uint8_t)(number | 0x80);
    bytes[n++] = (uint8_t)number;
    buf_put(to, bytes, n);
}

static uint64_t hash_of(const struct buf *node)
{
    uint64_t hash = node->len, word;
    for (size_t i = 0; i < node->len; i += sizeof word) {
        size_t n = node->len - i < sizeof word ? node->len - i : sizeof word;
        word = 0;
        memcpy(&word, node->data + i, n);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash ^ hash >> 32;
}

/* A larger table begins empty: sharing saves memory, but nothing depends on it. */
static bool grow_recent(struct value_arena *a)
{
    size_t len = a->recent_len ? a->recent_len * 2 : RECENT_LEAST;
    if (len > RECENT_MOST || a->added < a->recent_len)
        return true;
    uint64_t *recent = calloc(len, sizeof *recent);
    if (!recent)
        return false;
    free(a->recent);
    a->recent = recent;
    a->recent_len = len;
    return true;
}

static bool is_at(const struct value_arena *a, uint64_t offset)
{
    return offset && a->bytes.len - offset >= a->node.len &&
           memcmp(a->bytes.data + offset, a->node.data, a->node.len) == 0;
}

static int add_node(struct value_arena *a, enum value_kind kind, uint64_t *value, struct err *e)
{
    if (a->bytes.len == 0)
        buf_u8(&a->bytes, 0);
    if (a->node.failed || !grow_recent(a))
        return err_no_memory(e, "the file's values");
    uint64_t *recent = &a->recent[hash_of(&a->node) & (a->recent_len - 1)];
    if (!is_at(a, *recent)) {
        *recent = a->bytes.len;
        buf_put(&a->bytes, a->node.data, a->node.len);
        a->added++;
        if (a->bytes.failed)
            return err_no_memory(e, "the file's values");
    }
    *value = *recent << 3 | kind;
    return 0;
}

int value_integer(struct value_arena *a, int64_t number, uint64_t *value, struct err *e)
{
    const int64_t limit = (int64_t)1 << (INT_BITS - 1);
    if (number >= -limit && number < limit) {
        /* Zigzag, which keeps small negative numbers short. */
        *value = ((uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0)) << 3 | VALUE_INT;
        return 0;
    }
    buf_clear(&a->node);
    buf_i64(&a->node, number);
    return add_node(a, VALUE_WIDE, value, e);
}

int value_text(struct value_arena *a, struct view text, uint64_t *value, struct err *e)
{
    buf_clear(&a->node);
    put_number(&a->node, text.len);
    buf_put(&a->node, text.p, text.len);
    return add_node(a, VALUE_TEXT, value, e);
}

int value_list(struct value_arena *a, uint64_t before, const struct value_slot *items, size_t n,
               uint64_t *value, struct err *e)
{
    *value = before;
    if (n == 0)
        return 0;
    buf_clear(&a->node);
    put_number(&a->node, before);
    put_number(&a->node, n);
    for (size_t i = 0; i < n; i++)
        put_number(&a->node, items[i].value);
    return add_node(a, VALUE_LIST, value, e);
}

int value_dict(struct value_arena *a, uint64_t before, const struct value_slot *pairs, size_t n,
               uint64_t *value, struct err *e)
{
    uint64_t keys;
    *value = before;
    if (n == 0)
        return 0;
    buf_clear(&a->node);
    put_number(&a->node, VALUE_LIST);
    put_number(&a->node, n);
    for (size_t i = 0; i < n; i++)
        put_number(&a->node, pairs[2 * i].value);
    if (add_node(a, VALUE_LIST, &keys, e) != 0)
        return -1;
    buf_clear(&a->node);
    put_number(&a->node, before);
    put_number(&a->node, n);
    put_number(&a->node, keys);
    for (size_t i = 0; i < n; i++)
        put_number(&a->node, pairs[2 * i + 1].value);
    return add_node(a, VALUE_DICT, value, e);
}

/* ---- reading */

static uint64_t get_number(struct cursor *c)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return number;
}

static struct cursor node_at(const struct value_arena *a, uint64_t value)
{
    uint64_t offset = value >> 3;
    return offset < a->bytes.len ? cursor_over(a->bytes.data + offset, a->bytes.len - offset)
                                 : cursor_over("", 0);
}

bool value_signed(const struct value_arena *a, uint64_t value, int64_t *number)
{
    if (value_kind(value) == VALUE_INT) {
        uint64_t zigzag = value >> 3;
        *number = (int64_t)(zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0));
        return true;
    }
    struct cursor node = node_at(a, value);
    *number = cursor_i64(&node);
    return value_kind(value) == VALUE_WIDE;
}

bool value_number(const struct value_arena *a, uint64_t value, uint64_t *number)
{
    int64_t n;
    bool usable = value_signed(a, value, &n) && n >= 0;
    *number = usable ? (uint64_t)n : 0;
    return usable;
}

struct view value_view(const struct value_arena *a, uint64_t value)
{
    if (value_kind(value) != VALUE_TEXT)
        return (struct view){"", 0};
    struct cursor node = node_at(a, value);
    size_t len = get_number(&node);
    const uint8_t *text = cursor_take(&node, len);
    return text ? (struct view){(const char *)text, len} : (struct view){"", 0};
}

/* Opens a piece and returns the list that it continues. */
static uint64_t open_piece(struct value_walk *w, uint64_t list)
{
    w->items = node_at(w->arena, list);
    uint64_t before = get_number(&w->items);
    w->left = get_number(&w->items);
    return before;
}

int value_walk_begin(struct value_walk *w, const struct value_arena *a, uint64_t list,
                     struct err *e)
{
    w->arena = a;
    w->left = 0;
    w->pieces.len = 0;
    if (value_kind(list) != VALUE_LIST || list == VALUE_LIST)
        return 0;
    for (;;) {
        uint64_t before = open_piece(w, list);
        if (before == VALUE_LIST)
            return 0;
        if (!vec_push(&w->pieces, list))
            return err_no_memory(e, "the file's values");
        list = before;
    }
}

bool value_walk_next(struct value_walk *w, uint64_t *item)
{
    if (w->left == 0 && w->pieces.len)
        open_piece(w, w->pieces.at[--w->pieces.len]);
    if (w->left == 0)
        return false;
    w->left--;
    *item = get_number(&w->items);
    return true;
}

void value_walk_release(struct value_walk *w)
{
    vec_release(&w->pieces);
}

bool value_pairs_of(const struct value_arena *a, uint64_t dict, struct value_pairs *pairs)
{
    if (value_kind(dict) != VALUE_DICT || dict == VALUE_DICT)
        return false;
    pairs->values = node_at(a, dict);
    pairs->before = get_number(&pairs->values);
    pairs->n = get_number(&pairs->values);
    pairs->keys = get_number(&pairs->values);
    return true;
}

uint64_t value_pairs_next(struct value_pairs *pairs)
{
    return get_number(&pairs->values);
}
