#include "client/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "client/chunks.h"
#include "client/elf_image.h"
#include "client/real.h"

#define FRAMES_MOST 100000u /* that are followed to the end of an activation */
#define ADDRESS_END (UINT64_C(1) << 47)
#define TYPE_DEALLOC 48u /* of PyTypeObject, in all versions */

/* Versions whose layout is not in the interpreter itself. Each was tested with that interpreter. */
static const struct python_layout layouts[] = {
    {.version = 0x030b,
     .cframe = 56,
     .cframe_previous = 16,
     .frame = 8,
     .interpreter = 16,
     .code = 32,
     .previous = 48,
     .instruction = 56,
     .last = 68,
     .last_value = 1,
     .last_is_code = true,
     .owner = 69,
     .filename = 112,
     .qualname = 128,
     .linetable = 136,
     .first_line = 72,
     .bytecode = 184,
     .ascii = 48,
     .compact = 72},
    {.version = 0x030c,
     .cframe = 56,
     .cframe_previous = 8,
     .frame = 0,
     .interpreter = 16,
     .code = 0,
     .previous = 8,
     .instruction = 56,
     .last = 70,
     .last_value = 3,
     .owner = 70,
     .filename = 112,
     .qualname = 128,
     .linetable = 136,
     .first_line = 68,
     .bytecode = 192,
     .ascii = 40,
     .compact = 56},
};

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline bool is_pointer(uint64_t address)
{
    return address > 65535 && address < ADDRESS_END && (address & 7) == 0;
}

/* ---- finding the interpreter */

/*
 * CPython 3.13 has its offsets at the beginning of _PyRuntime, as words (pycore_runtime.h). What it
 * does not list has been so since 3.12.
 */
static bool layout_of_runtime(struct python_layout *l, const struct elf_image *m)
{
    enum {
        VERSION = 1,
        FREE_THREADED = 2,
        INTERPRETER = 22,
        FRAME = 23,
        PREVIOUS = 29,
        CODE = 30,
        INSTRUCTION = 31,
        OWNER = 33,
        FILENAME = 35,
        QUALNAME = 37,
        LINE_TABLE = 38,
        FIRST_LINE = 39,
        BYTECODE = 43,
        STRING = 67,
        ASCII = 70,
        WORDS = 71,
    };
    const uint64_t *w = (const uint64_t *)(uintptr_t)elf_image_object(m, "_PyRuntime");
    if (!w || memcmp(w, "xdebugpy", 8) != 0 || w[VERSION] >> 16 != 0x030d || w[FREE_THREADED])
        return false;
    for (unsigned i = FREE_THREADED; i < WORDS; i++) {
        if (i >= INTERPRETER && w[i] > UINT16_MAX)
            return false;
    }
    *l = (struct python_layout){.version = 0x030d,
                                .frame = (uint16_t)w[FRAME],
                                .interpreter = (uint16_t)w[INTERPRETER],
                                .code = (uint16_t)w[CODE],
                                .previous = (uint16_t)w[PREVIOUS],
                                .instruction = (uint16_t)w[INSTRUCTION],
                                .last = (uint16_t)w[OWNER],
                                .last_value = 3,
                                .owner = (uint16_t)w[OWNER],
                                .filename = (uint16_t)w[FILENAME],
                                .qualname = (uint16_t)w[QUALNAME],
                                .linetable = (uint16_t)w[LINE_TABLE],
                                .first_line = (uint16_t)w[FIRST_LINE],
                                .bytecode = (uint16_t)w[BYTECODE],
                                .ascii = (uint16_t)w[ASCII],
                                .compact = (uint16_t)(w[ASCII] + 16)};
    return true;
}

/* On AArch64 an activation cannot be assigned to its frame of the C stack. */
static bool find_layout(struct python_layout *l, const struct elf_image *m, uint32_t version)
{
#if !defined(__x86_64__)
    version = 0;
#endif
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i].version == version) {
            *l = layouts[i];
            return true;
        }
    }
    return version == 0x030d && layout_of_runtime(l, m);
}

static _Atomic uint32_t *generation_of(struct python *p, uint64_t code)
{
    return &p->generations[(code >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
                           (64 - PYTHON_GENERATIONS_BITS)];
}

static void forget_code(struct python *p, const void *code)
{
    atomic_fetch_add(generation_of(p, (uintptr_t)code), 1);
    atomic_fetch_add(&p->codes_freed, 1);
}

/*
 * In the place of the function that frees code objects. From here on the address may be that of
 * another code object, so what is known about it is void.
 */
static void code_freed(void *code)
{
    struct python *p = state.python_found;
    forget_code(p, code);
    p->code_freed(code);
    /* Callbacks of the object may have allocated while a frame still referred to it. */
    forget_code(p, code);
}

/* The loader has relocated the image: before that, the slot is not a pointer yet. */
static bool watch_codes(struct python *p)
{
    _Atomic uint64_t *slot = (_Atomic uint64_t *)(uintptr_t)(p->code_type + TYPE_DEALLOC);
    uint64_t before = atomic_load(slot), ours = (uintptr_t)code_freed;
    if (before == ours)
        return true;
    if (!is_pointer(before & ~UINT64_C(7)))
        return false;
    memcpy(&p->code_freed, &before, sizeof before);
    atomic_store(slot, ours);
    return true;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "python3.11", "python3-dbg", "libpython3.11.so.1.0", but no program such as "python-gateway". */
static bool is_interpreter(const char *base)
{
    base += strncmp(base, "lib", 3) == 0 ? 3 : 0;
    return strncmp(base, "python", 6) == 0 && !base[6 + strspn(base + 6, "0123456789.dbgso-")];
}

/* In an image that holds nothing but the interpreter, all frames are the interpreter's. */
static void take_image(struct python *p, const struct dl_phdr_info *info)
{
    const char *path = *p->path ? p->path : state.header->exe;
    if (!is_interpreter(base_of(path)))
        return;
    p->low = UINT64_MAX;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uint64_t low = info->dlpi_addr + segment->p_vaddr;
        p->low = low < p->low ? low : p->low;
        p->high = low + segment->p_memsz > p->high ? low + segment->p_memsz : p->high;
    }
}

#define TAKE_FUNCTION(image, to, name)                                                             \
    do {                                                                                           \
        uint64_t address_ = elf_image_function((image), (name));                                   \
        memcpy(&(to), &address_, sizeof address_);                                                 \
    } while (0)

static bool take_symbols(struct python *p, const struct elf_image *m)
{
    TAKE_FUNCTION(m, p->own, "PyGILState_GetThisThreadState");
    TAKE_FUNCTION(m, p->current, "PyThreadState_GetUnchecked");
    if (!p->current)
        TAKE_FUNCTION(m, p->current, "_PyThreadState_UncheckedGet");
    TAKE_FUNCTION(m, p->main, "PyInterpreterState_Main");
    TAKE_FUNCTION(m, p->allocator, "_PyMem_GetCurrentAllocatorName");
    p->code_type = elf_image_object(m, "PyCode_Type");
    p->string_type = elf_image_object(m, "PyUnicode_Type");
    p->bytes_type = elf_image_object(m, "PyBytes_Type");
    return p->own && p->current && p->main && p->string_type && p->bytes_type &&
           elf_image_covers(m, p->code_type, PF_R | PF_W);
}

/* Structures of a build with Py_TRACE_REFS are larger. */
static bool traces_references(const struct elf_image *m)
{
    return elf_image_function(m, "PyModule_Create2TraceRefs") != 0;
}

void python_look(const struct dl_phdr_info *info)
{
    struct elf_image m;
    if (state.python_found || !elf_image_read(&m, info) ||
        !elf_image_function(&m, "PyGILState_GetThisThreadState"))
        return;
    uint64_t version_at = elf_image_object(&m, "Py_Version");
    uint32_t version = version_at ? (uint32_t)(word_at(version_at) >> 16) : 0;
    struct python_layout layout;
    bool known = !traces_references(&m) && find_layout(&layout, &m, version);
    atomic_store(&state.header->python, version ? version : 1);
    struct python *p = known ? chunks_memory(sizeof *p) : NULL;
    if (!p)
        return;
    p->layout = layout;
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    memcpy(p->path, path, strnlen(path, sizeof p->path - 1));
    take_image(p, info);
    if (take_symbols(p, &m))
        state.python_found = p;
}

/*
 * Keeps the library loaded for as long as the program runs. It may have been unloaded since it was
 * found, and loaded elsewhere: then there is nothing at the addresses that are known.
 */
static bool keep_loaded(struct python *p)
{
    int saved = errno;
    void *(*open)(const char *, int) = real.dlopen;
    if (!open) {
        void *next = real_next("dlopen");
        memcpy(&open, &next, sizeof next);
    }
    void *library = open ? open(p->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    bool same = library && (uintptr_t)dlsym(library, "PyCode_Type") == p->code_type;
    errno = saved;
    if (!same)
        state.python_found = NULL;
    return same;
}

void python_settle(bool start)
{
    struct python *p = state.python_found;
    if (!p || atomic_load(&state.python) || state.no_python)
        return;
    if ((!start && *p->path && !keep_loaded(p)) || !watch_codes(p))
        return;
    atomic_store(&state.header->python_state, REC_PYTHON_READY);
    atomic_store(&state.python, p);
}

void python_begin(void)
{
    struct python *p = state.python_found;
    if (!p)
        return;
    atomic_store(&state.header->python, p->layout.version);
    memset(p->known, 0, sizeof p->known);
    memset(p->texts, 0, sizeof p->texts);
    p->sources = 0;
    if (state.no_python)
        atomic_store(&state.python, NULL);
    else if (atomic_load(&state.python))
        atomic_store(&state.header->python_state, REC_PYTHON_READY);
}

/* ---- reading frames */

struct reader {
    struct thread *t;
    struct python *p;
    bool defines;
    struct python_item *items;
    uint32_t same; /* of them, from the last reading, whose codes still live */
    uint32_t count, frames, most;
    bool changed; /* something differs from the last reading */
};

/* The source of a frame that was not at this place of the last reading. */
static bool find_source(const struct reader *r, uint64_t frame, struct python_item *item)
{
    uint64_t mixed = (item->code ^ item->instruction << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct python_known *k = &r->p->known[mixed >> (64 - PYTHON_CODES_BITS)];
    uint32_t generation =
        atomic_load_explicit(generation_of(r->p, item->code), memory_order_relaxed);
    if (client_likely(k->code == item->code && k->instruction == item->instruction &&
                      k->generation == generation)) {
        item->source = k->source;
        return true;
    }
    bool generator = *(const uint8_t *)(uintptr_t)(frame + r->p->layout.owner) == 1;
    if (!r->defines ||
        !python_describe(r->t, r->p, item->code, item->instruction, generator, &item->source))
        return false;
    /* A signal handler may jump away from here: the entry is invalid meanwhile. */
    k->code = 0;
    client_barrier();
    k->instruction = item->instruction;
    k->generation = generation;
    k->source = item->source;
    client_barrier();
    k->code = item->code;
    return true;
}

static inline void take_beginning(struct reader *r, uint32_t index, uint64_t at)
{
    r->changed |= index >= r->same || r->items[index].at != at;
    r->items[index] = (struct python_item){.at = at};
}

/* False: the frame cannot be described. */
static inline bool take_frame(struct reader *r, uint64_t frame)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t code = word_at(frame + l->code), instruction = word_at(frame + l->instruction);
    struct python_item *item = &r->items[r->count];
    bool known = r->count < r->same && item->code == code && item->instruction == instruction;
    if (client_unlikely(!known)) {
        r->changed = true;
        *item = (struct python_item){.code = code, .instruction = instruction};
        if (!find_source(r, frame, item))
            return false;
    }
    r->count++;
    r->frames++;
    return true;
}

/*
 * Reads the frames of one activation, from `frame` outwards. *outer: the frame that called it.
 * *at: its address on the C stack, if only its last frame has that. False: something is wrong.
 */
static bool take_activation(struct reader *r, uint64_t frame, uint64_t *outer, uint64_t *at)
{
    const struct python_layout *l = &r->p->layout;
    for (unsigned i = 0; i < FRAMES_MOST; i++) {
        if (!is_pointer(frame))
            return false;
        bool last = *(const uint8_t *)(uintptr_t)(frame + l->last) == l->last_value;
        *outer = word_at(frame + l->previous);
        if (r->frames < r->most && (!last || l->last_is_code) && !take_frame(r, frame))
            return false;
        if (last) {
            *at = frame;
            return true;
        }
        /* Where the C stack has the beginning of an activation, its other frames need no visit. */
        if (l->last_is_code && r->frames == r->most)
            return true;
        frame = *outer;
    }
    return false;
}

/* 3.11: a cframe on the C stack has the running frame of each activation. */
static bool read_cframes(struct reader *r, uint64_t cframe, uint64_t low, uint64_t high)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t outer = 0, at = 0;
    while (r->frames < r->most && r->count - r->frames < r->most) {
        /* The outermost one is in the thread state. */
        if ((cframe & 7) || cframe < low || cframe >= high - 32)
            return true;
        /* One that runs nothing: greenlet begins a stack with it. */
        uint64_t frame = word_at(cframe + l->frame);
        if (frame) {
            take_beginning(r, r->count++, cframe);
            if (!take_activation(r, frame, &outer, &at))
                return false;
        }
        low = cframe + 8;
        cframe = word_at(cframe + l->cframe_previous);
    }
    return true;
}

/* Later versions: each activation ends with a frame of no code, which is itself on the C stack. */
static bool read_chain(struct reader *r, uint64_t frame, uint64_t low, uint64_t high)
{
    uint64_t outer = 0, at = 0;
    while (frame && r->frames < r->most && r->count - r->frames < r->most) {
        uint32_t begin = r->count++;
        if (!take_activation(r, frame, &outer, &at))
            return false;
        if (at < low || at >= high) {
            r->count = begin;
            return true;
        }
        take_beginning(r, begin, at);
        low = at + 8;
        frame = outer;
    }
    return true;
}

static void note_allocator(const struct python *p)
{
    const char *name = p->allocator ? p->allocator() : NULL;
    bool is_malloc = name && strncmp(name, "malloc", 6) == 0;
    atomic_store(&state.header->python_state, is_malloc ? REC_PYTHON_MALLOC : REC_PYTHON_PYMALLOC);
}

uint32_t python_read(struct thread *t, void *thread, uint64_t low, uint64_t high, bool defines)
{
    struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    const struct python_layout *l = &p->layout;
    struct walk *walk = &t->walk;
    struct reader r = {
        .t = t, .p = p, .defines = defines, .items = walk->items, .most = state.depth};
    uint64_t at = (uintptr_t)thread;
    uint32_t freed = atomic_load_explicit(&p->codes_freed, memory_order_relaxed);
    r.same = walk->codes_freed == freed ? walk->item_count : 0;
    walk->item_count = 0;
    uint64_t running = word_at((l->cframe ? word_at(at + l->cframe) : at) + l->frame);
    bool read = word_at(at + l->interpreter) == (uintptr_t)p->main() &&
                (l->last_is_code ? read_cframes(&r, word_at(at + l->cframe), low, high)
                                 : read_chain(&r, running, low, high));
    if (client_unlikely(!read)) {
        atomic_fetch_add_explicit(&state.header->python_unread, 1, memory_order_relaxed);
        return 0;
    }
    if (client_unlikely(state.header->python_state == REC_PYTHON_READY) && r.count)
        note_allocator(p);
    if (r.changed || r.count != r.same)
        walk->mixed_node = 0;
    walk->item_count = r.count;
    walk->codes_freed = freed;
    return r.count;
}
