#include "analysis/code/module_facts.h"

#include <stdbool.h>
#include <string.h>

/* Takes hexadecimal digits and the following byte off the front. */
static bool take_hex(struct view *text, char end, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;
    *out = 0;
    for (; n < text->len && n < 16; n++) {
        const char *digit = text->p[n] ? strchr(digits, text->p[n]) : NULL;
        if (!digit)
            break;
        *out = *out << 4 | (uint64_t)(digit - digits);
    }
    if (n == 0 || n >= text->len || text->p[n] != end)
        return false;
    *text = (struct view){text->p + n + 1, text->len - n - 1};
    return true;
}

static bool parse(struct view text, struct module_fact *m)
{
    if (!take_hex(&text, '-', &m->start) || !take_hex(&text, ' ', &m->end) ||
        !take_hex(&text, ' ', &m->offset) || m->start >= m->end)
        return false;
    const char *space = text.len ? memchr(text.p, ' ', text.len) : NULL;
    if (!space)
        return false;
    m->build_id = (struct view){text.p, (size_t)(space - text.p)};
    if (view_equal(m->build_id, view_of("-")))
        m->build_id.len = 0;
    m->path = (struct view){space + 1, (size_t)(text.p + text.len - space) - 1};
    return true;
}

int module_facts_walk(const struct trace *t,
                      int (*put)(void *ctx, const struct module_fact *m, struct err *e), void *ctx,
                      struct err *e)
{
    static const char key[] = "tidemark.module=";
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view text = strings_get(&t->strings, t->app_info.at[i]);
        struct module_fact m;
        if (text.len < sizeof key || memcmp(text.p, key, sizeof key - 1) != 0)
            continue;
        text = (struct view){text.p + sizeof key - 1, text.len - (sizeof key - 1)};
        if (parse(text, &m) && put(ctx, &m, e) != 0)
            return -1;
    }
    return 0;
}
