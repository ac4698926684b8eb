#include "client/modules.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/encode.h"
#include "client/kernel_map.h"
#include "client/python/python.h"
#include "client/quiet.h"
#include "client/real.h"
#include "client/record_write.h"
#include "client/stacks.h"
#include "client/unwind.h"

#define BUILD_ID_MOST 64u
#define PATH_MOST 4000u
#define PATH_HEAD 2u /* bytes of its length */
_Static_assert(128 + 2 * PATH_MOST + PATH_HEAD <= REC_RECORD_MAX, "two paths and what is before");
#define SEGMENTS_MOST 32u
#define ROOM_FIRST 64u

/* ---- the dynamic linker's list */

struct table_question {
    uint64_t address;
    struct cfi_table *table;
    uint64_t adds, subs;
    bool found;
};

static bool covers(const struct dl_phdr_info *info, const ElfW(Phdr) * segment, uint64_t address)
{
    return segment->p_type == PT_LOAD &&
           address - info->dlpi_addr - segment->p_vaddr < segment->p_memsz;
}

static void take_table(const struct dl_phdr_info *info, struct table_question *q)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_GNU_EH_FRAME)
            continue;
        uint64_t at = info->dlpi_addr + header->p_vaddr;
        for (size_t j = 0; j < info->dlpi_phnum; j++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[j];
            if (!covers(info, segment, at) || !(segment->p_flags & PF_R))
                continue;
            uint64_t low = info->dlpi_addr + segment->p_vaddr;
            q->table->header = (const uint8_t *)(uintptr_t)at;
            q->table->low = (const uint8_t *)(uintptr_t)low;
            /* Only bytes in the file: pages beyond its end would raise SIGBUS. */
            q->table->high = (const uint8_t *)(uintptr_t)(low + segment->p_filesz);
            q->found = q->table->header < q->table->high;
        }
    }
}

static int on_table_module(struct dl_phdr_info *info, size_t size, void *question)
{
    struct table_question *q = question;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        q->adds = info->dlpi_adds;
        q->subs = info->dlpi_subs;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (covers(info, &info->dlpi_phdr[i], q->address)) {
            take_table(info, q);
            return 1;
        }
    }
    return 0;
}

bool modules_table(struct thread *t, uint64_t address, struct cfi_table *table)
{
    struct table_question q = {.address = address, .table = table};
    (void)dl_iterate_phdr(on_table_module, &q);
    if (q.adds != atomic_load_explicit(&state.adds, memory_order_relaxed) ||
        q.subs != atomic_load_explicit(&state.subs, memory_order_relaxed))
        modules_refresh(t, false);
    return q.found;
}

/* ---- the table */

static bool grow(void)
{
    uint32_t room = state.module_room ? state.module_room * 2 : ROOM_FIRST;
    struct module *more = chunks_memory(room * sizeof *more);
    if (!more)
        return false;
    if (state.modules) {
        memcpy(more, state.modules, state.module_count * sizeof *more);
        system_unmap(state.modules, state.module_room * sizeof *more);
    }
    state.modules = more;
    state.module_room = room;
    return true;
}

/* Finds the GNU build id among the notes of a segment; returns its length, 0: there is none. */
static size_t build_id_in(const uint8_t *at, size_t size, const uint8_t **id)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        size_t body = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        size_t rest = size - sizeof note;
        if (name > rest || body > rest - name)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0) {
            *id = at + sizeof note + name;
            return note.n_descsz < BUILD_ID_MOST ? note.n_descsz : BUILD_ID_MOST;
        }
        at += sizeof note + name + body;
        size = rest - name - body;
    }
    return 0;
}

static size_t build_id_of(const struct dl_phdr_info *info, const uint8_t **id)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE)
            continue;
        size_t length = build_id_in((const uint8_t *)(uintptr_t)(info->dlpi_addr + p->p_vaddr),
                                    p->p_filesz, id);
        if (length)
            return length;
    }
    return 0;
}

/*
 * Completes a relative path with the working folder, which may have changed since the module was
 * loaded; the build id reveals that. A name without a slash is not a file.
 */
static uint8_t *put_path(uint8_t *at, const char *name)
{
    /* Stacks may be small: uses the unused part of the record's memory. */
    char *path = (char *)at + PATH_MOST + PATH_HEAD;
    size_t length = name ? strnlen(name, PATH_MOST) : 0, folder = 0;
    if (length && name[0] != '/' && memchr(name, '/', length)) {
        long n = syscall(SYS_getcwd, path, (size_t)PATH_MOST);
        /* Includes the NUL; "(unreachable)…" when it is outside the root folder. */
        folder = n > 1 && path[0] == '/' && (size_t)n + length <= PATH_MOST ? (size_t)n : 0;
    }
    if (!folder)
        return encode_text(at, name ? name : "", length);
    path[folder - 1] = '/';
    memcpy(path + folder, name, length);
    return encode_text(at, path, folder + length);
}

/*
 * Identifies the file of an image without a build id: device, inode, size and mtime. For the
 * executable it is the running one; for a library only one that was loaded just now, since a file
 * that was replaced since has the same path. With a system call filter nothing is tried.
 */
static uint8_t *put_file(uint8_t *at, const char *name)
{
    struct stat st;
    bool main = !name || !*name;
    if ((!main && real_is_late()) || state.nameless ||
        syscall(SYS_newfstatat, AT_FDCWD, main ? "/proc/self/exe" : name, &st, 0) != 0)
        return at;
    at = encode_number(encode_number(at, st.st_dev), st.st_ino);
    at = encode_number(at, (uint64_t)st.st_size);
    return encode_number(at,
                         (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec);
}

static void record_load(struct thread *t, const struct dl_phdr_info *info, uint32_t number)
{
    uint8_t *at = record_begin(t);
    if (!at)
        return;
    const uint8_t *id = NULL;
    size_t id_length = build_id_of(info, &id), segments = 0;
    at = encode_number(at, number);
    at = encode_number(at, atomic_load_explicit(&state.epoch, memory_order_relaxed));
    at = encode_number(at, info->dlpi_addr);
    at = put_path(at, info->dlpi_name);
    at = encode_text(at, id ? id : (const uint8_t *)"", id_length);
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        segments += info->dlpi_phdr[i].p_type == PT_LOAD;
    segments = segments < SEGMENTS_MOST ? segments : SEGMENTS_MOST;
    at = encode_number(at, segments);
    for (size_t i = 0; i < info->dlpi_phnum && segments; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        at = encode_number(at, p->p_vaddr);
        at = encode_number(at, p->p_memsz);
        at = encode_number(at, p->p_offset);
        at = encode_number(at, p->p_flags);
        at = encode_number(at, p->p_filesz);
        segments--;
    }
    if (!id_length)
        at = put_file(at, info->dlpi_name);
    record_end(t, REC_MODULE_LOAD, at);
}

static void record_unload(struct thread *t, uint32_t number, uint32_t epoch)
{
    uint8_t *at = record_begin(t);
    if (!at)
        return;
    at = encode_number(at, number);
    record_end(t, REC_MODULE_UNLOAD, encode_number(at, epoch));
}

static struct module *find(const struct module *like)
{
    for (uint32_t i = 0; i < state.module_count; i++) {
        struct module *m = &state.modules[i];
        if (m->low == like->low && m->high == like->high && m->bias == like->bias &&
            m->headers == like->headers)
            return m;
    }
    return NULL;
}

/* Results of the first pass over the dynamic linker's list. */
struct survey {
    struct thread *t;
    uint64_t adds, subs;
    bool record; /* the second pass: new modules are recorded */
};

static int on_module(struct dl_phdr_info *info, size_t size, void *survey)
{
    struct survey *s = survey;
    struct module m = {.bias = info->dlpi_addr,
                       .low = UINT64_MAX,
                       .headers = (uintptr_t)info->dlpi_phdr,
                       .seen = true};
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        s->adds = info->dlpi_adds;
        s->subs = info->dlpi_subs;
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        uint64_t low = m.bias + p->p_vaddr;
        m.low = low < m.low ? low : m.low;
        m.high = low + p->p_memsz > m.high ? low + p->p_memsz : m.high;
    }
    struct module *known = find(&m);
    if (known) {
        known->seen = true;
    } else if (s->record && (state.module_count < state.module_room || grow())) {
        m.number = state.module_number++;
        state.modules[state.module_count++] = m;
        record_load(s->t, info, m.number);
        python_look(info);
    }
    return 0;
}

/* Drops modules that were unloaded. They are gone from the next epoch on. */
static void drop_unseen(struct thread *t)
{
    uint32_t kept = 0;
    uint32_t epoch = atomic_load_explicit(&state.epoch, memory_order_relaxed);
    uint32_t next = epoch < UINT16_MAX ? epoch + 1 : epoch;
    for (uint32_t i = 0; i < state.module_count; i++) {
        if (state.modules[i].seen)
            state.modules[kept++] = state.modules[i];
        else
            record_unload(t, state.modules[i].number, next);
    }
    if (kept == state.module_count)
        return;
    state.module_count = kept;
    atomic_store_explicit(&state.header->epoch, next, memory_order_relaxed);
    atomic_store_explicit(&state.epoch, next, memory_order_release);
    unwind_renew();
    stacks_renew();
}

void modules_refresh(struct thread *t, bool must)
{
    struct quiet q;
    quiet_begin(&q);
    while (atomic_exchange_explicit(&state.modules_lock, 1, memory_order_acquire)) {
        if (!must) {
            quiet_end(&q);
            return;
        }
        (void)sched_yield();
    }
    struct survey s = {.t = t};
    for (uint32_t i = 0; i < state.module_count; i++)
        state.modules[i].seen = false;
    (void)dl_iterate_phdr(on_module, &s);
    drop_unseen(t);
    s.record = true;
    (void)dl_iterate_phdr(on_module, &s);
    atomic_store_explicit(&state.adds, s.adds, memory_order_relaxed);
    atomic_store_explicit(&state.subs, s.subs, memory_order_relaxed);
    atomic_store_explicit(&state.modules_lock, 0, memory_order_release);
    quiet_end(&q);
}

void modules_forget(void)
{
    state.module_count = 0;
    state.module_number = 0;
    atomic_store(&state.modules_lock, 0);
    atomic_store(&state.adds, 0);
    atomic_store(&state.subs, 0);
    atomic_store(&state.epoch, 0);
}
