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
    uint32_t frames = 0;
    for (uint32_t i = 0; i < t->walk.item_count; i++)
        frames += t->walk.items[i].code != 0;
    if (frames > state.depth || t->walk.item_count - frames > state.depth)
        abort();
    if (t->walk.item_count && (!read || t->walk.items[0].code))
        abort();
    return read;
}

static void compare(const struct walk *a, const struct walk *b)
{
    if (a->item_count != b->item_count || a->items_cut != b->items_cut)
        abort();
    for (uint32_t i = 0; i < a->item_count; i++) {
        const struct python_item *x = &a->items[i], *y = &b->items[i];
        if (x->address != y->address || x->code != y->code || x->instruction != y->instruction)
            abort();
    }
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
        if (read_image(t, p, image)) {
            first = t->walk;
            if (!read_image(t, p, image))
                abort();
            compare(&first, &t->walk);
            t->walk.item_count = 0;
            if (!read_image(t, p, image))
                abort();
            compare(&first, &t->walk);
        }
    }
    free(t);
    free(p);
    return 0;
}
