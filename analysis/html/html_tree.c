#include "analysis/html/html_tree.h"

#include <string.h>
#include <xxhash.h>

void page_tree_release(struct page_tree *t)
{
    map_release(&t->texts);
    map_release(&t->frames);
    map_release(&t->nodes);
    map_release(&t->stacks);
    vec_release(&t->names);
    vec_release(&t->looks);
}

/* ---- texts */

/* Bytes that a text takes in the page: see escape() in report/html/html.c. */
static uint64_t text_cost(struct view text)
{
    uint64_t cost = 3;
    size_t n = text.len < PAGE_STRING_MAX ? text.len : PAGE_STRING_MAX;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text.p[i];
        cost += c < 0x20 || c == '<' || c == '>' || c == '&' ? 6 : c == '"' || c == '\\' ? 2 : 1;
        cost += c >= 0x80 ? 2 : 0;
    }
    return cost;
}

/* Traces choose their texts, so the hash has the process's seed. */
static uint64_t hash_of(const void *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, map_hash(0));
}

/* The number of a text, 0 if it is empty, UINT32_MAX if it is new. `key` is where it belongs. */
static uint32_t find_text(const struct page_tree *t, struct view text, uint64_t *key)
{
    const uint64_t *number;
    if (text.len == 0)
        return 0;
    *key = hash_of(text.p, text.len);
    while ((number = map_find(&t->texts, *key))) {
        if (view_equal(t->names.at[*number - 1], text))
            return (uint32_t)*number;
        ++*key;
    }
    return UINT32_MAX;
}

static int add_text(struct page_tree *t, struct page_data *d, struct view text, uint32_t *number,
                    struct err *e)
{
    uint64_t key;
    *number = find_text(t, text, &key);
    if (*number != UINT32_MAX)
        return 0;
    uint64_t *at = map_add(&t->texts, key, NULL);
    if (!at || !vec_push(&t->names, text))
        return err_no_memory(e, "names of the page");
    *at = t->names.len;
    *number = (uint32_t)t->names.len;
    d->text += text_cost(text);
    return 0;
}

int page_tree_text(struct page_tree *t, struct page_data *d, struct view *text, struct err *e)
{
    uint32_t number;
    if (add_text(t, d, *text, &number, e) != 0)
        return -1;
    if (number)
        *text = t->names.at[number - 1];
    return 0;
}

int page_tree_texts(struct page_tree *t, struct page_data *d, struct frame_view *f, struct err *e)
{
    if (page_tree_text(t, d, &f->function, e) != 0 || page_tree_text(t, d, &f->file, e) != 0)
        return -1;
    return page_tree_text(t, d, &f->image, e);
}

uint64_t page_tree_cost(const struct page_tree *t, const struct frame_view *f)
{
    const struct view texts[] = {f->function, f->file, f->image};
    uint64_t cost = 0;
    uint64_t key;
    for (size_t i = 0; i < 3; i++)
        cost += find_text(t, texts[i], &key) == UINT32_MAX ? text_cost(texts[i]) : 0;
    return cost;
}

/* ---- frames, nodes, call stacks */

int page_tree_frame(struct page_tree *t, struct page_data *d, struct frame_view f, uint32_t *number,
                    struct err *e)
{
    struct frame_look look = {
        .address = f.function.len ? 0 : f.address, .line = f.line, .is_inline = f.is_inline};
    if (page_tree_texts(t, d, &f, e) != 0 || add_text(t, d, f.function, &look.function, e) != 0 ||
        add_text(t, d, f.file, &look.file, e) != 0 || add_text(t, d, f.image, &look.image, e) != 0)
        return -1;
    uint64_t key = hash_of(&look, sizeof look);
    const uint64_t *known;
    for (; (known = map_find(&t->frames, key)); key++) {
        *number = (uint32_t)*known;
        if (memcmp(&t->looks.at[*known], &look, sizeof look) == 0)
            return 0;
    }
    uint64_t *at = map_add(&t->frames, key, NULL);
    if (!at || !vec_push(&d->frames, f) || !vec_push(&t->looks, look))
        return err_no_memory(e, "frames");
    *at = *number = (uint32_t)(d->frames.len - 1);
    return 0;
}

int page_tree_child(struct page_tree *t, struct page_data *d, uint32_t frame, uint32_t *node,
                    struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&t->nodes, (uint64_t)*node << 32 | frame, &fresh);
    if (!at || (fresh && !vec_push(&d->nodes, (struct page_node){*node, frame})))
        return err_no_memory(e, "frames");
    if (fresh)
        *at = d->nodes.len - 1;
    *node = (uint32_t)*at;
    return 0;
}

int page_tree_stack(struct page_tree *t, struct page_data *d, struct page_stack stack,
                    uint32_t *number, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&t->stacks, (uint64_t)stack.node << 32 | stack.begin, &fresh);
    if (!at)
        return err_no_memory(e, "call stacks");
    if (fresh || d->stacks.at[*at].site != stack.site) {
        *at = d->stacks.len;
        if (!vec_push(&d->stacks, stack))
            return err_no_memory(e, "call stacks");
    }
    *number = (uint32_t)*at;
    return 0;
}
