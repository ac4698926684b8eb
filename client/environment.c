#include "client/environment.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/files.h"
#include "client/kernel_map.h"
#include "client/state.h"

#define PRELOAD "LD_PRELOAD"

/* The value of "NAME=VALUE"; NULL: it is another variable. */
static char *value_of(char *variable, const char *name)
{
    size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=' ? variable + length + 1
                                                                           : NULL;
}

static void copy(char *to, size_t room, const char *value)
{
    size_t length = strlen(value);
    if (length < room)
        memcpy(to, value, length + 1);
}

/* The last one is the name for users of the Kit's wrapper. */
static bool is_own(const char *file, size_t length)
{
    static const char *const names[] = {"libtidemark.so", "libtidemark-gpu.so",
                                        "liballocwrapper.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (length >= strlen(names[i]) && memcmp(file, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* Finds the library's first entry in a list like LD_PRELOAD; returns its length, 0: none. */
static size_t own_entry(char *list, char **entry)
{
    for (char *at = list; *at;) {
        size_t length = strcspn(at, ": ");
        for (size_t i = length; i-- > 0;) {
            if (i && at[i - 1] != '/')
                continue;
            if (is_own(at + i, length - i)) {
                *entry = at;
                return length;
            }
            break;
        }
        at += length + (at[length] != 0);
    }
    return 0;
}

static void read_variable(char *variable)
{
    char *value, *entry;
    if ((value = value_of(variable, REC_ENV_SOCKET)))
        copy(state.socket_path, sizeof state.socket_path, value);
    else if ((value = value_of(variable, REC_ENV_FILE)))
        copy(state.file_path, sizeof state.file_path, value);
    else if ((value = value_of(variable, REC_ENV_OPTIONS)))
        copy(state.words, sizeof state.words, value);
    else if ((value = value_of(variable, REC_ENV_RUN)))
        copy(state.run_words, sizeof state.run_words, value);
    else if ((value = value_of(variable, REC_ENV_COLLECTOR)))
        copy(state.collector, sizeof state.collector, value);
    else if ((value = value_of(variable, REC_ENV_PROGRAM)))
        copy(state.program, sizeof state.program, value);
    else if ((value = value_of(variable, PRELOAD))) {
        size_t length, used = 0;
        for (char *at = value; (length = own_entry(at, &entry)); at = entry + length) {
            if (length + 2 > sizeof state.preload - used)
                break;
            if (used)
                state.preload[used++] = ':';
            memcpy(state.preload + used, entry, length);
            used += length;
            state.preload[used] = 0;
        }
    }
}

void environment_read(void)
{
    if (environ) {
        for (char **p = environ; *p; p++)
            read_variable(*p);
        return;
    }
    /* The dynamic linker calls malloc before the C library's environment is set up. */
    static char text[131072];
    ssize_t length = files_read("/proc/self/environ", text, sizeof text);
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(text + at) + 1)
        read_variable(text + at);
}

/* True when the variable is empty afterwards. */
static bool clean_variable(char *variable)
{
    char *list = value_of(variable, PRELOAD), *entry;
    if (value_of(variable, REC_ENV_SOCKET) || value_of(variable, REC_ENV_FILE) ||
        value_of(variable, REC_ENV_OPTIONS) || value_of(variable, REC_ENV_RUN) ||
        value_of(variable, REC_ENV_COLLECTOR) || value_of(variable, REC_ENV_PROGRAM))
        return true;
    bool found = false;
    for (size_t length; list && (length = own_entry(list, &entry)); found = true) {
        char *rest = entry + length;
        if (*rest)
            rest++; /* the separator after it */
        else if (entry > list)
            entry--; /* the separator before it */
        memmove(entry, rest, strlen(rest) + 1);
    }
    return found && *list == 0;
}

void environment_clean(char **environment)
{
    if (!environment)
        return;
    char **to = environment;
    for (char **from = environment; *from; from++) {
        if (!clean_variable(*from))
            *to++ = *from;
    }
    *to = NULL;
}

/* ---- for exec */

/* Pointers first, strings after them, all in one block of memory that begins with its size. */
struct maker {
    char **next;
    char *text;
};

static void add(struct maker *m, const char *name, const char *value, const char *more)
{
    size_t a = strlen(name), b = strlen(value), c = strlen(more);
    if (!b)
        return;
    *m->next++ = m->text;
    memcpy(m->text, name, a);
    m->text[a] = '=';
    memcpy(m->text + a + 1, value, b);
    m->text += a + 1 + b;
    if (c)
        *m->text++ = ':';
    memcpy(m->text, more, c + 1);
    m->text += c + 1;
}

/* One of the variables that are added again. */
static bool is_ours(char *variable)
{
    return value_of(variable, REC_ENV_SOCKET) || value_of(variable, REC_ENV_FILE) ||
           value_of(variable, REC_ENV_OPTIONS) || value_of(variable, PRELOAD);
}

/* A program with a lower limit has no room for the library, and would not even start with it. */
#define DATA_LEAST (1u << 20)

static bool is_too_little(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur < DATA_LEAST;
}

/*
 * RLIMIT_DATA limits private memory. Wrappers such as prlimit(1) set it before exec, and may use
 * more themselves already: then the environment is in a shared mapping, which the limit ignores.
 */
static void *environment_memory(size_t bytes)
{
    int saved = errno;
    bool bears = !is_too_little();
    void *p = bears ? chunks_memory(bytes) : NULL;
    if (bears && !p)
        p = system_map(bytes, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (p && p != MAP_FAILED)
        return p;
    if (atomic_load_explicit(&live.page.on, memory_order_relaxed) == LIVE_ON)
        atomic_fetch_add_explicit(&state.header->bare_execs, 1, memory_order_relaxed);
    return NULL;
}

char **environment_with(char *const *environment)
{
    char *entry, *preload = NULL;
    size_t count = 0;
    if (!state.preload[0])
        return NULL;
    for (; environment && environment[count]; count++) {
        char *value = value_of(environment[count], PRELOAD);
        preload = value ? value : preload;
    }
    if (preload && own_entry(preload, &entry))
        return NULL; /* it is there already */
    size_t bytes = sizeof(size_t) + (count + 5) * sizeof(char *) + sizeof state.preload +
                   sizeof state.socket_path + sizeof state.file_path + sizeof state.words +
                   (preload ? strlen(preload) : 0) + 256;
    size_t *memory = environment_memory(bytes);
    if (!memory)
        return NULL;
    char **made = (char **)(memory + 1);
    struct maker m = {made, (char *)(made + count + 5)};
    *memory = bytes;
    for (size_t i = 0; i < count; i++) {
        if (!is_ours(environment[i]))
            *m.next++ = environment[i];
    }
    add(&m, PRELOAD, state.preload, preload ? preload : "");
    add(&m, REC_ENV_SOCKET, state.socket_path, "");
    add(&m, REC_ENV_FILE, state.file_path, "");
    add(&m, REC_ENV_OPTIONS, state.words, "");
    *m.next = NULL;
    return made;
}

void environment_drop(char **made)
{
    if (made)
        system_unmap((size_t *)(void *)made - 1, *((size_t *)(void *)made - 1));
}
