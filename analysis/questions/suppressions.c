#include "analysis/questions/suppressions.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/names/frames.h"

/* ---- patterns */

enum match { MATCH, NO_MATCH, NEVER };

/*
 * Whether `text` begins with the pattern up to `end`, in which "*" matches anything. NEVER: the
 * part before the first "*" matched, but the rest nowhere, so it cannot match later either.
 */
static enum match match_here(const char *p, const char *end, bool to_the_end, struct view text)
{
    const char *star = NULL; /* after the newest "*", and the position of its attempted match */
    size_t retry = 0;
    size_t i = 0;
    for (;;) {
        if (p < end && *p == '*') {
            star = ++p;
            retry = i;
        } else if (p == end && (!to_the_end || i == text.len)) {
            return MATCH;
        } else if (p < end && i < text.len && text.p[i] == *p) {
            p++;
            i++;
        } else if (star && retry < text.len) {
            p = star;
            i = ++retry;
        } else {
            return star ? NEVER : NO_MATCH;
        }
    }
}

bool suppression_matches(const char *pattern, struct view text)
{
    size_t len = strlen(pattern);
    bool from_start = len && pattern[0] == '^';
    const char *begin = pattern + from_start;
    bool to_the_end = len > (size_t)from_start && pattern[len - 1] == '$';
    const char *end = pattern + len - to_the_end;
    if (text.len == 0)
        return false;
    for (size_t i = 0; i <= text.len; i++) {
        struct view rest = {text.p + i, text.len - i};
        enum match found = match_here(begin, end, to_the_end, rest);
        if (found != NO_MATCH || from_start)
            return found == MATCH;
    }
    return false;
}

/* ---- the file */

static struct view trimmed(struct view line)
{
    while (line.len && strchr(" \t\r", line.p[line.len - 1]))
        line.len--;
    while (line.len && strchr(" \t", line.p[0])) {
        line.p++;
        line.len--;
    }
    return line;
}

static int add_line(struct suppressions *s, struct view line, const char *name, size_t number,
                    struct err *e)
{
    static const char kind[] = "leak:";
    line = trimmed(line);
    if (line.len == 0 || line.p[0] == '#')
        return 0;
    if (line.len <= strlen(kind) || memcmp(line.p, kind, strlen(kind)) != 0 ||
        memchr(line.p, 0, line.len))
        return err_set(e, ERR_USAGE, "%s, line %zu: not of the form leak:PATTERN", name, number);
    char *pattern = strndup(line.p + strlen(kind), line.len - strlen(kind));
    if (!pattern || !vec_push(&s->list, (struct suppression){.pattern = pattern})) {
        free(pattern);
        return err_no_memory(e, "suppressions");
    }
    return 0;
}

int suppressions_parse(struct suppressions *s, struct view text, const char *name, struct err *e)
{
    size_t number = 1;
    for (size_t at = 0; at < text.len; number++) {
        const char *end = memchr(text.p + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.p) - at : text.len - at;
        if (add_line(s, (struct view){text.p + at, len}, name, number, e) != 0)
            return -1;
        at += len + 1;
    }
    return 0;
}

void suppressions_release(struct suppressions *s)
{
    for (size_t i = 0; i < s->list.len; i++)
        free(s->list.at[i].pattern);
    vec_release(&s->list);
}

/* ---- call stacks */

#define UNSEEN (UINT32_MAX - 1)

static uint32_t of_text(const struct suppressions *s, struct view text, uint32_t best)
{
    for (uint32_t i = 0; i < s->list.len && i < best; i++) {
        if (suppression_matches(s->list.at[i].pattern, text))
            return i;
    }
    return best;
}

static uint32_t of_frame(const struct suppressions *s, const struct trace *t, uint32_t frame)
{
    uint32_t best = SUPPRESSION_NONE;
    for (uint32_t i = 0; i < frame_depth(t, frame); i++) {
        struct frame_view f = frame_describe(t, frame, i);
        best = of_text(s, f.function, best);
        best = of_text(s, f.file, best);
        best = of_text(s, f.image, best);
    }
    return best;
}

uint32_t *suppressions_of_callstacks(const struct suppressions *s, const struct trace *t,
                                     struct err *e)
{
    const struct callstacks *c = &t->callstacks;
    uint32_t *stacks = malloc((c->list.len + 1) * sizeof *stacks);
    uint32_t *frames = malloc((c->frames.len + 1) * sizeof *frames);
    if (!stacks || !frames) {
        free(stacks);
        free(frames);
        err_no_memory(e, "suppressions");
        return NULL;
    }
    for (size_t i = 0; i < c->frames.len; i++)
        frames[i] = UNSEEN;
    for (size_t id = 0; id <= c->list.len; id++) {
        uint32_t node = id && s->list.len ? c->list.at[id - 1].node : 0;
        stacks[id] = SUPPRESSION_NONE;
        for (; node; node = c->nodes.at[node].parent) {
            uint32_t frame = c->nodes.at[node].frame;
            if (frames[frame] == UNSEEN)
                frames[frame] = of_frame(s, t, frame);
            if (frames[frame] < stacks[id])
                stacks[id] = frames[frame];
        }
    }
    free(frames);
    return stacks;
}
