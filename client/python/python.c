#include "client/python/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "client/chunks.h"
#include "client/elf_image.h"
#include "client/real.h"

#define TYPE_DEALLOC 48u /* of PyTypeObject, in all versions */

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline bool is_pointer(uint64_t address)
{
    return address > 65535 && address < PYTHON_ADDRESS_END && (address & 7) == 0;
}

/* ---- finding the interpreter */

static bool find_layout(struct python_layout *l, const struct elf_image *m, uint32_t version)
{
    const uint64_t *words = (const uint64_t *)(uintptr_t)elf_image_object(m, "_PyRuntime");
    return version && python_layout_find(l, version, words);
}

static void forget_code(struct python *p, const void *code)
{
    atomic_fetch_add(python_generation(p, (uintptr_t)code), 1);
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
    TAKE_FUNCTION(m, p->head, "PyInterpreterState_Head");
    TAKE_FUNCTION(m, p->allocator, "_PyMem_GetCurrentAllocatorName");
    p->evaluator = elf_image_function(m, "_PyEval_EvalFrameDefault");
    p->evaluator_bytes = elf_image_function_size(m, "_PyEval_EvalFrameDefault");
    p->code_type = elf_image_object(m, "PyCode_Type");
    p->string_type = elf_image_object(m, "PyUnicode_Type");
    p->bytes_type = elf_image_object(m, "PyBytes_Type");
    return p->own && p->current && p->main && p->head && p->string_type && p->bytes_type &&
           elf_image_covers(m, p->code_type, PF_R | PF_W);
}

/* Structures of a build with Py_TRACE_REFS are larger. */
static bool traces_references(const struct elf_image *m)
{
    return elf_image_function(m, "PyModule_Create2TraceRefs") != 0;
}

/* 3.11 and later have a variable for it. Functions that were new distinguish the others. */
static uint32_t version_of(const struct elf_image *m)
{
    uint64_t at = elf_image_object(m, "Py_Version");
    if (at)
        return (uint32_t)(word_at(at) >> 16);
    if (elf_image_function(m, "PyIter_Send"))
        return 0x030a;
    if (elf_image_function(m, "PyFrame_GetCode"))
        return 0x0309;
    return elf_image_function(m, "PyCode_NewWithPosOnlyArgs") ? 0x0308 : 0;
}

void python_look(const struct dl_phdr_info *info)
{
    struct elf_image m;
    if (state.python_found || !elf_image_read(&m, info) ||
        !elf_image_function(&m, "PyGILState_GetThisThreadState"))
        return;
    uint32_t version = version_of(&m);
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
    void *library = real_dlopen(p->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
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
    memset(&p->states, 0, sizeof p->states);
    atomic_store(&p->states_are_blocks, false); /* until the allocator is noted */
    /* If no source has a number, the tables are as mapped, and stay out of memory. */
    if (p->sources) {
        memset(p->known, 0, sizeof p->known);
        memset(p->texts, 0, sizeof p->texts);
    }
    p->sources = 0;
    if (state.no_python)
        atomic_store(&state.python, NULL);
    else if (atomic_load(&state.python))
        atomic_store(&state.header->python_state, REC_PYTHON_READY);
}

/* ---- call stacks */

static void note_allocator(struct python *p)
{
    const char *name = p->allocator ? p->allocator() : NULL;
    bool is_malloc = name && strncmp(name, "malloc", 6) == 0;
    /* The debugging allocators' blocks begin elsewhere, and unnamed ones are the program's. */
    atomic_store(&p->states_are_blocks, name && !strstr(name, "debug"));
    atomic_store(&state.header->python_state, is_malloc ? REC_PYTHON_MALLOC : REC_PYTHON_PYMALLOC);
}

static uint32_t count_in(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    return 0;
}

/*
 * Before 3.12 the process has one current state, which may be another thread's. If it is not the
 * calling thread's, that thread released the GIL, unless it runs a subinterpreter.
 */
static bool may_be_elsewhere(const struct python *p)
{
    if (p->layout.version >= 0x030c)
        return p->current() != NULL;
    const void *head = p->head();
    return head && head != p->main();
}

static uint32_t read_unheld(struct thread *t, struct python *p, uint64_t at, uint64_t low,
                            uint64_t high, bool defines)
{
    if (may_be_elsewhere(p))
        return count_in(&state.header->python_subinterpreters);
    int cell = python_state_enter(p, at);
    if (cell < 0)
        return count_in(&state.header->python_unheld);
    bool read = python_read_state(t, p, at, low, high, defines);
    python_state_leave(p, cell);
    return read ? t->walk.item_count : count_in(&state.header->python_unread);
}

/* A state that this thread may not read without the GIL yet: its first reading at least. */
static __attribute__((noinline)) uint32_t read_new(struct thread *t, struct python *p, uint64_t at,
                                                   uint64_t low, uint64_t high, bool defines)
{
    if (word_at(at + p->layout.interpreter) != (uintptr_t)p->main())
        return count_in(&state.header->python_subinterpreters);
    python_state_held(p, at);
    if (!python_read_state(t, p, at, low, high, defines))
        return count_in(&state.header->python_unread);
    if (state.header->python_state == REC_PYTHON_READY && t->walk.item_count)
        note_allocator(p);
    return t->walk.item_count;
}

bool python_read_other(struct thread *t, struct python *p, uint64_t at, uint64_t low, uint64_t high,
                       bool defines)
{
    if (p->current() != (void *)(uintptr_t)at)
        return read_unheld(t, p, at, low, high, defines);
    return read_new(t, p, at, low, high, defines);
}
