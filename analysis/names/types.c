#include "analysis/names/types.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/names/element_type.h"
#include "analysis/names/frames.h"
#include "analysis/names/function_name.h"
#include "base/map.h"

/* What a frame says about a block's type, besides the number of a type. */
#define UNSEEN UINT32_MAX
#define PROGRAM (UINT32_MAX - 1)   /* the program begins here, or types differ: no type */
#define RAW (UINT32_MAX - 2)       /* no type, and the frame is at most operator new or malloc */
#define MACHINERY (UINT32_MAX - 3) /* no type */
#define TYPES_MAX (UINT32_MAX - 4)

/* Neither the program nor a type was reached yet. */
static bool is_open(uint32_t said)
{
    return said == RAW || said == MACHINERY;
}

struct builder {
    struct types *types;
    const struct trace *trace;
    const struct skiplist *skip;
    struct program_frames *program;
    uint32_t *said[2];  /* by frame number: its result; second: when called by machinery only */
    struct map numbers; /* content hash → number; on a collision, the next key */
    struct buf text;
};

/* The number of the type whose name is in b->text; UNSEEN with `e` filled. */
static uint32_t number_of_text(struct builder *b, struct err *e)
{
    struct types *t = b->types;
    struct view text = {(const char *)b->text.data, b->text.len};
    for (uint64_t key = XXH3_64bits(text.p, text.len); !b->text.failed; key++) {
        bool fresh;
        uint64_t *number = map_add(&b->numbers, key, &fresh);
        if (!number)
            break;
        if (!fresh && view_equal(t->names.at[*number], text))
            return (uint32_t)*number;
        if (!fresh)
            continue;
        char *copy = t->names.len < TYPES_MAX ? malloc(text.len) : NULL;
        if (!copy || !vec_push(&t->texts, copy)) {
            free(copy);
            break;
        }
        memcpy(copy, text.p, text.len);
        *number = t->names.len;
        if (!vec_push(&t->names, (struct view){copy, text.len}))
            break;
        return (uint32_t)*number;
    }
    err_no_memory(e, "types");
    return UNSEEN;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* An allocator without callbacks: malloc, operator new, functions that users skip. */
static bool is_raw(const struct builder *b, const struct frame_view *f)
{
    static const char *const libraries[] = {
        "std::", "__gnu_cxx::", "alloc::", "core::", "hashbrown::", "std.array.", "std.container."};
    char name[FUNCTION_NAME_SIZE];
    if (skiplist_class(b->skip, f->function, (struct view){"", 0}) != FRAME_ALLOCATOR)
        return false;
    function_name(f->function, name);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (begins(name, libraries[i]))
            return false;
    }
    return true;
}

/* The result of one function; `raw`: it calls only raw allocators. */
static uint32_t ask_function(struct builder *b, const struct frame_view *f, bool raw, struct err *e)
{
    buf_clear(&b->text);
    enum element_evidence evidence = element_type(f->function, &b->text);
    bool told = evidence == ELEMENT_SURE || (evidence == ELEMENT_DIRECT && raw) ||
                (evidence == ELEMENT_IN_LINE && raw && f->file.len);
    if (told)
        return number_of_text(b, e);
    return raw && is_raw(b, f) ? RAW : MACHINERY;
}

/* The position after the outermost function of a frame that is instrumentation. */
static uint32_t beyond_instrumentation(const struct builder *b, uint32_t frame, uint32_t depth)
{
    for (uint32_t i = depth; i > 0; i--) {
        struct frame_view f = frame_describe(b->trace, frame, i - 1);
        if ((f.function.len || f.file.len) &&
            skiplist_class(b->skip, f.function, f.file) == FRAME_INSTRUMENTATION)
            return i;
    }
    return 0;
}

/*
 * What the next function outwards adds. Beyond the first type, only sure ones count, and all that
 * such a function allocates is of its type. So if they differ, a function has the name of another
 * one that was merged with it.
 */
static uint32_t join(uint32_t said, uint32_t next)
{
    if (is_open(said) || next == UNSEEN)
        return next;
    return is_open(next) || next == PROGRAM || next == said ? said : PROGRAM;
}

/* The result of a frame, its inlined functions included; UNSEEN on an error. */
static uint32_t ask_frame(struct builder *b, uint32_t frame, bool raw, struct err *e)
{
    uint32_t *known = &b->said[raw ? 0 : 1][frame];
    uint32_t depth = frame_depth(b->trace, frame);
    if (*known != UNSEEN)
        return *known;
    uint32_t program = program_frames_function(b->program, frame);
    /* Functions called by instrumentation are ignored. */
    bool is_client = b->program->is_client[frame];
    uint32_t i = is_client ? beyond_instrumentation(b, frame, depth) : 0;
    uint32_t said = raw || is_client ? RAW : MACHINERY;
    /* Functions inlined into merged ones are those of one of them. */
    bool merged = element_type_is_merged(frame_describe(b->trace, frame, depth - 1).function);
    for (; i < depth && said != PROGRAM && said != UNSEEN; i++) {
        struct frame_view f = frame_describe(b->trace, frame, i);
        if (i == program)
            return *known = join(said, PROGRAM);
        said = join(said, merged ? MACHINERY : ask_function(b, &f, said == RAW, e));
    }
    return *known = said;
}

static uint32_t ask_callstack(struct builder *b, uint32_t callstack, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    uint32_t said = RAW;
    uint32_t node = program_frames_start(b->program, callstack);
    for (; node && said != PROGRAM && said != UNSEEN; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        said = join(said, ask_frame(b, frame, said == RAW, e));
        if (program_frames_function(b->program, frame) != NO_PROGRAM_FUNCTION)
            break;
    }
    return is_open(said) || said == PROGRAM ? TYPE_NONE : said;
}

static int build(struct builder *b, struct err *e)
{
    struct types *t = b->types;
    size_t frames = b->trace->callstacks.frames.len + 1;
    t->callstack_count = b->trace->callstacks.list.len + 1;
    t->pageable = b->trace->memory.pageable;
    t->of_callstack = pageable_zeroed(t->pageable, t->callstack_count * sizeof *t->of_callstack);
    for (int i = 0; i < 2; i++) {
        b->said[i] = pageable_zeroed(t->pageable, frames * sizeof *b->said[i]);
        if (b->said[i])
            memset(b->said[i], 0xff, frames * sizeof *b->said[i]);
    }
    if (!t->of_callstack || !b->said[0] || !b->said[1] ||
        !vec_push(&t->names, (struct view){"", 0}))
        return err_no_memory(e, "types");
    for (size_t id = 1; id < t->callstack_count; id++) {
        uint32_t said = ask_callstack(b, (uint32_t)id, e);
        if (said == UNSEEN)
            return -1;
        if (said) /* pages of zeros take no memory */
            t->of_callstack[id] = said;
    }
    return 0;
}

int types_build(struct types *t, struct program_frames *program, struct err *e)
{
    *t = (struct types){0};
    struct builder b = {
        .types = t, .trace = program->trace, .skip = program->skip, .program = program};
    int status = build(&b, e);
    const size_t said = (program->trace->callstacks.frames.len + 1) * sizeof *b.said[0];
    for (int i = 0; i < 2; i++)
        pageable_free(program->trace->memory.pageable, b.said[i], said);
    map_release(&b.numbers);
    buf_release(&b.text);
    if (status != 0)
        types_release(t);
    return status;
}

void types_release(struct types *t)
{
    for (size_t i = 0; i < t->texts.len; i++)
        free(t->texts.at[i]);
    vec_release(&t->texts);
    vec_release(&t->names);
    pageable_free(t->pageable, t->of_callstack, t->callstack_count * sizeof *t->of_callstack);
    *t = (struct types){0};
}
