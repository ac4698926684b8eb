/*
 * Any memory as that of CPython: the structures from which the preload library reads the frames of
 * Python functions. The first byte of the input is the minor version, the second one the depth of
 * call stacks. From 3.13 on, the words of _PyRuntime follow. The rest is the image of the process.
 * In it, words that look like pointers are moved into the image, as the interpreter's own pointers
 * are valid. Reading twice, and without the last reading, must give the same frames.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Their folder is no library: they become one object. */
#include "client/python/python_code.c"
#define word_at word_of_frame
#include "client/python/python_frames.c"
#undef word_at
#include "client/python/python_layouts.c"

enum {
    IMAGE = 1 << 15,
    BEYOND = 1 << 25, /* line tables, strings and offsets may lead beyond the image */
    STATE = 0x100,
    STACK_LOW = 0x800,
    STACK_HIGH = 0x1000,
    STRING_TYPE = 8,
    BYTES_TYPE = 16,
    CODE_TYPE = 24,
    EVALUATOR = 0x10000, /* no code is there */
    EVALUATOR_BYTES = 0x100,
    NATIVES = 6,           /* every other one is the evaluator's */
    RUNTIME = 71 * 8,      /* of 3.13, */
    RUNTIME_LATER = 81 * 8 /* and of later versions */
};

#define CODE_TAGS UINT64_C(3) /* that the pointer to a code object may have */

struct state state;
__thread struct tls tls;
static uint8_t record[REC_RECORD_MAX - 32];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint8_t *record_begin(struct thread *t)
{
    (void)t;
    return record;
}

void record_end(struct thread *t, enum rec_kind kind, uint8_t *end)
{
    (void)t;
    if (kind != REC_SOURCE || end <= record || end > record + sizeof record)
        abort();
}

static void load(uint8_t *image, const uint8_t *data, size_t size)
{
    uint64_t base = (uintptr_t)image;
    memset(image, 0, IMAGE);
    memcpy(image, data, size < IMAGE ? size : IMAGE);
    for (size_t i = 0; i < IMAGE; i += 8) {
        uint64_t word;
        memcpy(&word, image + i, 8);
        if (word >> 16 == 0x7f)
            word = base + word % IMAGE;
        else if (is_pointer(word & ~CODE_TAGS))
            word = base + word % IMAGE / 8 * 8 + (word & CODE_TAGS);
        memcpy(image + i, &word, 8);
    }
}

static bool read_image(struct thread *t, struct python *p, uint8_t *image)
{
    uint64_t base = (uintptr_t)image;
    bool read = python_read_state(t, p, base + STATE, base + STACK_LOW, base + STACK_HIGH, true);
    const struct walk *walk = &t->walk;
    if (walk->item_count > CLIENT_ITEMS || walk->activation_count > CLIENT_ITEMS)
        abort();
    if (walk->item_count && (!read || !walk->activation_count))
        abort();
    for (uint32_t i = 0; i < walk->activation_count; i++) {
        uint32_t least = i ? walk->activations[i - 1].first : 0, first = walk->activations[i].first;
        if (first < least || first > (i ? walk->item_count : 0))
            abort();
    }
    return read;
}

/* Native frames, which the chain of 3.9 needs. */
static void put_natives(struct thread *t, struct python *p, const uint8_t *image, uint32_t beyond)
{
    p->evaluator = EVALUATOR;
    p->evaluator_bytes = EVALUATOR_BYTES;
    t->walk.count = NATIVES;
    t->walk.evaluators_beyond = beyond;
    for (uint32_t i = 0; i < NATIVES; i++) {
        uint64_t pc = EVALUATOR + i % 2 * EVALUATOR_BYTES;
        t->walk.frames[i] =
            (struct walk_frame){.pc = pc, .sp = (uintptr_t)image + STACK_HIGH - (i + 1) * 0x80};
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Frames that no call stack shows may be those of a reading before. */
static void compare(const struct walk *a, const struct walk *b)
{
    uint32_t shown = least(a->item_count, state.depth);
    if (shown != least(b->item_count, state.depth))
        abort();
    for (uint32_t i = 1; i <= shown; i++) {
        const struct python_item *x = &a->items[a->item_count - i];
        const struct python_item *y = &b->items[b->item_count - i];
        if (x->address != y->address || x->code != y->code || x->instruction != y->instruction ||
            x->source != y->source)
            abort();
    }
    for (uint32_t i = 1; i <= a->activation_count; i++) {
        const struct python_activation *x = &a->activations[a->activation_count - i];
        if (x->first + shown < a->item_count)
            break;
        const struct python_activation *y = &b->activations[b->activation_count - i];
        if (i > b->activation_count || x->address != y->address ||
            a->item_count - x->first != b->item_count - y->first)
            abort();
    }
}

/*
 * Changes the last reading as if the program had run on since: the frames from `changed` inwards
 * were others, and `more` of them have ended.
 */
static void change(struct walk *walk, unsigned changed, unsigned more)
{
    for (uint32_t i = changed; i < walk->item_count; i++)
        walk->items[i].instruction += 2;
    for (; more && walk->item_count && walk->item_count < CLIENT_ITEMS; more--)
        walk->items[walk->item_count++] = (struct python_item){.address = 8};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *image;
    static struct walk first;
    uint64_t words[RUNTIME_LATER / 8] = {0};
    if (!image)
        image = mmap(NULL, IMAGE + BEYOND, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (image == MAP_FAILED || size < 2)
        return 0;
    uint32_t version = 0x0300u | data[0];
    state.depth = data[1] % REC_DEPTH_MAX + 1u;
    size_t at = 2, runtime = version == 0x030d ? RUNTIME : RUNTIME_LATER;
    if (version >= 0x030d && size >= at + runtime) {
        memcpy(words, data + at, runtime);
        at += runtime;
    }
    struct thread *t = calloc(1, sizeof *t);
    struct python *p = calloc(1, sizeof *p);
    if (t && p && python_layout_find(&p->layout, version, words)) {
        load(image, data + at, size - at);
        p->string_type = (uintptr_t)image + STRING_TYPE;
        p->bytes_type = (uintptr_t)image + BYTES_TYPE;
        p->code_type = (uintptr_t)image + CODE_TYPE;
        put_natives(t, p, image, data[size - 1] % 3);
        if (read_image(t, p, image)) {
            first = t->walk;
            python_stack_named(&t->walk, 1); /* so the native frames are as they were */
            if (!read_image(t, p, image))
                abort();
            compare(&first, &t->walk);
            t->walk.last.node = 0;
            change(&t->walk, data[size / 2] % state.depth, data[size - 1] % 4);
            if (!read_image(t, p, image))
                abort();
            compare(&first, &t->walk);
            t->walk.item_count = t->walk.activation_count = 0;
            t->walk.items_cut = false;
            if (!read_image(t, p, image))
                abort();
            compare(&first, &t->walk);
        }
    }
    free(t);
    free(p);
    return 0;
}
