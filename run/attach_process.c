#include "run/attach_process.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "client/recording_format.h"
#include "run/process_stat.h"
#include "run/remote.h"
#include "run/stored_pointers.h"
#include "symbols/elf/elf_file.h"

#define TEXT_MOST ((uint64_t)64 << 20)

/* A flag of __libc_dlopen_mode, which older C libraries have instead of dlopen. */
#define MODE_INTERNAL 0x80000000u

/* A file that is mapped into the process. */
struct mapped {
    uint64_t base;      /* address of its first byte */
    uint64_t low, high; /* range of its code */
    char path[PATH_MAX];
};

struct process {
    pid_t pid;
    VEC(struct mapped) files;
    uint64_t restorer;
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- mappings */

/* Code that the kernel maps into each process. */
static const char vdso[] = "[vdso]";

static int take_mapping(struct process *p, const char *line, struct err *e)
{
    uint64_t low, high, offset;
    char rights[8];
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &low, &high, rights,
               &offset, &at) < 4 ||
        (line[at] != '/' && !begins_with(line + at, vdso)))
        return 0;
    size_t length = strcspn(line + at, "\n");
    struct mapped *file = p->files.len ? &p->files.at[p->files.len - 1] : NULL;
    if (!file || strlen(file->path) != length || memcmp(file->path, line + at, length) != 0) {
        struct mapped fresh = {.base = low - offset};
        if (length >= sizeof fresh.path)
            return 0;
        memcpy(fresh.path, line + at, length);
        if (!vec_push(&p->files, fresh))
            return err_no_memory(e, "the process's mappings");
        file = &p->files.at[p->files.len - 1];
    }
    if (rights[2] == 'x') {
        file->low = file->high ? file->low : low;
        file->high = high;
    }
    return 0;
}

static int read_mappings(struct process *p, struct err *e)
{
    char path[64], *line = NULL;
    size_t room = 0;
    int status = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)p->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return err_errno(e, ERR_OUTPUT, "cannot look at process %d", (int)p->pid);
    while (status == 0 && getline(&line, &room, maps) > 0)
        status = take_mapping(p, line, e);
    free(line);
    fclose(maps);
    return status;
}

static const struct mapped *find_file(const struct process *p, const char *const *names)
{
    for (size_t i = 0; i < p->files.len; i++) {
        for (size_t j = 0; names[j]; j++) {
            if (begins_with(name_of(p->files.at[i].path), names[j]))
                return &p->files.at[i];
        }
    }
    return NULL;
}

static const char *const c_library[] = {"libc.so.6", "libc-2.", NULL};
static const char *const linker[] = {"ld-linux", "ld-2.", "ld.so", NULL};
static const char *const musl[] = {"ld-musl", "libc.musl", NULL};
static const char *const loading[] = {"libdl.so.2", "libdl-2.", NULL};
static const char *const own[] = {"libtidemark.so", NULL};
static const char *const allocators[] = {
    "libc.so.6",   "libc-2.",     "ld-linux",       "ld-2.",      "ld.so",      "libjemalloc",
    "libtcmalloc", "libmimalloc", "libtidemark.so", "libpthread", "libdl.so.2", NULL};

static bool is_unsafe(void *ctx, uint64_t address)
{
    const struct process *p = ctx;
    for (size_t i = 0; i < p->files.len; i++) {
        const struct mapped *f = &p->files.at[i];
        const struct process one = {.files = {.at = (struct mapped *)f, .len = 1}};
        if (address >= f->low && address < f->high)
            return find_file(&one, allocators) != NULL;
    }
    return false;
}

/* ---- contents of the files */

/* The address of a dynamic symbol in the process; 0: there is none. */
static uint64_t symbol_at(const struct process *p, const struct mapped *file, const char *wanted)
{
    struct elf_file *elf;
    struct err unread;
    struct view symbols, names;
    char path[PATH_MAX + 64];
    uint64_t found = 0;
    if (!file)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)p->pid, file->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool opened = elf_file_open(&elf, fd, NULL, &unread) == 0;
    close(fd);
    if (!opened)
        return 0;
    if (elf_file_is_64(elf) && elf_file_section(elf, ".dynsym", &symbols, NULL) == 0 &&
        elf_file_section(elf, ".dynstr", &names, NULL) == 0 && symbols.p && names.p) {
        for (size_t at = 0; !found && symbols.len - at >= sizeof(Elf64_Sym);
             at += sizeof(Elf64_Sym)) {
            Elf64_Sym s;
            memcpy(&s, symbols.p + at, sizeof s);
            if (s.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s.st_info) == STT_FUNC &&
                s.st_name < names.len &&
                strnlen(names.p + s.st_name, names.len - s.st_name) == strlen(wanted) &&
                begins_with(names.p + s.st_name, wanted))
                found = file->base + s.st_value;
        }
    }
    elf_file_close(elf);
    return found;
}

/* Finds the code by which signal handlers return. */
static int find_restorer(struct process *p, struct err *e)
{
    const struct remote_code *wanted = &remote_machine.restorer;
    const struct mapped *file = find_file(p, remote_machine.restorer_in);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)p->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t size = file ? file->high - file->low : 0;
    uint8_t *text = fd >= 0 && size > 0 && size < TEXT_MOST ? malloc(size) : NULL;
    if (text && pread(fd, text, size, (off_t)file->low) == (ssize_t)size) {
        const uint8_t *at = memmem(text, size, wanted->code, wanted->size);
        p->restorer = at ? file->low + (uint64_t)(at - text) : 0;
    }
    free(text);
    if (fd >= 0)
        close(fd);
    return p->restorer ? 0
                       : err_set(e, ERR_OUTPUT,
                                 "the C library of process %d could not be read, or is not known",
                                 (int)p->pid);
}

/* ---- checks */

/* A number from /proc/PID/status; -1: it is missing. */
static long status_number(pid_t pid, const char *key)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status)) {
        if (begins_with(line, key) && line[strlen(key)] == ':')
            value = strtol(line + strlen(key) + 1, NULL, 10);
    }
    if (status)
        fclose(status);
    return value;
}

static bool is_stopped(pid_t pid)
{
    struct process_stat s;
    return process_stat_read(pid, &s) && (s.state == 'T' || s.state == 't');
}

/* The file that the process would load must be the same as this process sees. */
static bool sees(pid_t pid, const char *library)
{
    char path[PATH_MAX + 64];
    struct stat here, there;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, library);
    return stat(library, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

static int check_state(pid_t pid, const char *library, struct err *e)
{
    long seccomp = status_number(pid, "Seccomp"), tracer = status_number(pid, "TracerPid");
    if (status_number(pid, "Pid") < 0)
        return err_set(e, ERR_OUTPUT, "there is no process %d", (int)pid);
    if (pid == getpid())
        return err_set(e, ERR_OUTPUT, "process %d is this one", (int)pid);
    if (tracer > 0)
        return err_set(e, ERR_OUTPUT, "process %d has a debugger already: process %ld", (int)pid,
                       tracer);
    if (is_stopped(pid))
        return err_set(e, ERR_OUTPUT, "process %d is stopped", (int)pid);
    if (seccomp > 0)
        return err_set(e, ERR_OUTPUT,
                       "process %d has given up system calls (seccomp), and might be killed",
                       (int)pid);
    if (!sees(pid, library))
        return err_set(e, ERR_OUTPUT,
                       "process %d does not see %s: it has another root, or may not be looked at",
                       (int)pid, library);
    return 0;
}

static int check_mappings(const struct process *p, const char *library, struct err *e)
{
    const struct mapped *loaded = find_file(p, own);
    if (loaded && (strcmp(loaded->path, library) != 0 || !sees(p->pid, library)))
        return err_set(e, ERR_OUTPUT,
                       "process %d has another libtidemark.so loaded, %s, which only its own "
                       "tidemark can use",
                       (int)p->pid, loaded->path);
    if (find_file(p, musl))
        return err_set(e, ERR_OUTPUT, "process %d has the C library musl: the GNU one is known",
                       (int)p->pid);
    if (!find_file(p, c_library) || !find_file(p, linker))
        return err_set(e, ERR_OUTPUT,
                       "process %d is statically linked, or may not be looked at: it has no "
                       "dynamic linker of the GNU C library",
                       (int)p->pid);
    return 0;
}

int attach_check(pid_t pid, const char *library, struct err *e)
{
    struct process p = {.pid = pid};
    int status = check_state(pid, library, e);
    if (status == 0)
        status = read_mappings(&p, e);
    if (status == 0)
        status = check_mappings(&p, library, e);
    vec_release(&p.files);
    return status;
}

/* ---- calls */

/* Stops a thread. The mappings are read before, and again if they have changed. */
static int stop(struct process *p, pid_t pid, struct remote **remote, struct err *e)
{
    *remote = NULL;
    p->pid = pid;
    if (read_mappings(p, e) != 0 || find_restorer(p, e) != 0)
        return -1;
    const struct remote_plan plan = {
        .pid = pid, .restorer = p->restorer, .is_unsafe = is_unsafe, .ctx = p};
    return remote_stop(remote, &plan, e);
}

static int load(struct process *p, struct remote *remote, const char *library, struct err *e)
{
    uint64_t handle, mode = RTLD_NOW;
    uint64_t function = symbol_at(p, find_file(p, c_library), "dlopen");
    if (!function)
        function = symbol_at(p, find_file(p, loading), "dlopen");
    if (!function) {
        function = symbol_at(p, find_file(p, c_library), "__libc_dlopen_mode");
        mode |= MODE_INTERNAL;
    }
    if (!function)
        return err_set(e, ERR_OUTPUT, "the C library of process %d has no dlopen", (int)p->pid);
    if (remote_call(remote, function, library, mode, &handle, e) != 0)
        return -1;
    return handle ? 0 : err_set(e, ERR_OUTPUT, "process %d cannot load %s", (int)p->pid, library);
}

static int explain(int32_t answer, pid_t pid, struct err *e)
{
    switch (answer) {
    case REC_ATTACH_DONE:
        return 0;
    case REC_ATTACH_RECORDED:
        return err_set(e, ERR_OUTPUT, "process %d is recorded already", (int)pid);
    case REC_ATTACH_UNKNOWN:
        return err_set(e, ERR_OUTPUT,
                       "the functions malloc and free that process %d calls could not be found",
                       (int)pid);
    case REC_ATTACH_BUSY:
        return err_set(e, ERR_OUTPUT,
                       "process %d was recorded before, or is a fork of one that was, and its "
                       "threads may still be in that recording; try again",
                       (int)pid);
    default:
        return err_set(e, ERR_OUTPUT, "libtidemark.so in process %d could not begin a recording",
                       (int)pid);
    }
}

/* Calls a function of the loaded library. */
static int call_own(struct process *p, struct remote *remote, const char *name, const char *text,
                    uint64_t *result, struct err *e)
{
    p->files.len = 0;
    if (read_mappings(p, e) != 0)
        return -1;
    uint64_t function = symbol_at(p, find_file(p, own), name);
    if (!function)
        return err_set(e, ERR_OUTPUT, "process %d has not loaded libtidemark.so", (int)p->pid);
    return remote_call(remote, function, text, 0, result, e);
}

/* Begins or ends the recording. *stored: functions whose addresses the process may have stored. */
static int call_and_look(struct process *p, struct remote *remote, const char *name,
                         const char *text, struct rec_stored *stored, struct err *e)
{
    char path[64];
    uint64_t result, at = 0;
    if (call_own(p, remote, name, text, &result, e) != 0 ||
        explain((int32_t)result, p->pid, e) != 0 ||
        call_own(p, remote, REC_STORED, NULL, &at, e) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)p->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && pread(fd, stored, sizeof *stored, (off_t)at) == sizeof *stored;
    if (fd >= 0)
        close(fd);
    /* This is memory of the process, which may have overwritten it. */
    if (!whole || stored->count > REC_STORED_MOST || stored->own_count > 2)
        *stored = (struct rec_stored){.count = 0};
    return 0;
}

int attach_begin(pid_t pid, const char *library, const char *socket, struct err *left,
                 struct err *e)
{
    struct process p = {.pid = pid};
    struct remote *remote = NULL;
    struct rec_stored stored;
    uint64_t changed;
    int status = stop(&p, pid, &remote, e);
    if (status == 0)
        status = load(&p, remote, library, e);
    if (status == 0)
        status = call_and_look(&p, remote, REC_ATTACH, socket, &stored, e);
    remote_let_go(remote);
    vec_release(&p.files);
    if (status == 0)
        (void)stored_pointers_change(pid, &stored, false, &changed, left);
    return status;
}

int attach_end(pid_t pid, struct err *e)
{
    struct process p = {.pid = pid};
    struct remote *remote = NULL;
    struct rec_stored stored;
    struct err left;
    uint64_t changed;
    int status = stop(&p, pid, &remote, e);
    if (status == 0)
        status = call_and_look(&p, remote, REC_DETACH, NULL, &stored, e);
    remote_let_go(remote);
    vec_release(&p.files);
    if (status == 0)
        (void)stored_pointers_change(pid, &stored, true, &changed, &left);
    return status;
}
