#include "server/capture/client_modules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/guard/sampler.h"
#include "server/guard/socket_owner.h"
#include "symbols/place/process_modules.h"

#define REFRESH_NS 1000000000LL
/* Limit of the facts of one trace. No sane process has more executable mappings. */
#define MODULES_MOST 8192u

/* Reads /proc itself, or through the sampler if this process has given up its privileges. */
int modules_init(struct modules *m, int fd, uint64_t likely, int sampler, struct err *e)
{
    *m = (struct modules){
        .early = PROCESS_EARLY_NONE, .root = PROCESS_ROOT_NONE, .sampler = sampler};
    if (sampler >= 0) {
        struct sampled found;
        if (sampler_find(sampler, fd, likely, &found) != 0)
            return 0;
        m->pid = found.pid;
        m->early = found.early;
        m->root = found.root;
        return 0;
    }
    if (socket_owner(fd, likely, &m->pid, e) != 0)
        return -1;
    if (m->pid) {
        m->root = process_root_open(m->pid);
        m->early = process_early_open(m->pid);
    }
    return 0;
}

void modules_release(struct modules *m)
{
    map_release(&m->seen);
    process_early_close(&m->early);
    process_root_close(&m->root);
}

bool modules_has_pid(const struct modules *m, uint64_t pid)
{
    char path[48], line[256];
    bool found = false;
    if (m->pid == 0 || pid == 0)
        return false;
    if ((uint64_t)m->pid == pid)
        return true;
    snprintf(path, sizeof path, "/proc/%d/status", (int)m->pid);
    FILE *f = fopen(path, "re");
    /* "NSpid:	4711	12": the process's ids, from the outermost namespace to the innermost. */
    while (f && !found && fgets(line, sizeof line, f)) {
        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        const char *last = strrchr(line, '\t');
        found = last && strtoull(last + 1, NULL, 10) == pid;
    }
    if (f)
        fclose(f);
    return found;
}

/* ---- what it has mapped */

struct reading {
    struct modules *m;
    struct trace *t;
};

static int note_module(void *ctx, const struct module *module, struct err *e)
{
    const struct reading *r = ctx;
    char id[2 * BUILD_ID_MAX + 1];
    bool fresh;
    uint64_t key = module->start;
    for (const char *p = module->path; *p; p++)
        key = map_hash(key ^ (uint8_t)*p);
    if (r->m->seen.count >= MODULES_MOST)
        return 0;
    if (!map_add(&r->m->seen, key, &fresh))
        return err_no_memory(e, "the module table");
    if (!fresh)
        return 0;
    build_id_text(&module->build_id, id);
    return trace_add_fact(r->t, e, "module", "%" PRIx64 "-%" PRIx64 " %" PRIx64 " %s %s",
                          module->start, module->end, module->offset, id, module->path);
}

static int open_sampled(void *ctx, const struct module *module)
{
    const struct modules *m = ctx;
    return sampler_open(m->sampler, module->start, module->end);
}

static int modules_read(struct modules *m, struct trace *t, struct err *e)
{
    struct reading r = {m, t};
    struct err cause = {0};
    int fresh = process_modules_open(m->pid), maps = fresh >= 0 ? fresh : m->early.maps;
    const struct process_view view = {.pid = m->pid,
                                      .root = &m->root,
                                      .open = m->sampler >= 0 ? open_sampled : NULL,
                                      .open_ctx = m};
    int status = maps < 0 ? 0 : process_modules_read(maps, &view, note_module, &r, &cause);
    if (fresh >= 0)
        close(fresh);
    if (status == 0 || cause.code == ERR_INPUT)
        return 0; /* exited, or not readable by this user */
    if (e)
        *e = cause;
    return -1;
}

int modules_refresh(struct modules *m, struct trace *t, long long now, struct err *e)
{
    size_t frames = t->callstacks.frames.len;
    if (!m->pid || (m->last_read && (frames == m->frames_read || now - m->last_read < REFRESH_NS)))
        return 0;
    m->last_read = now;
    m->frames_read = frames;
    return modules_read(m, t, e);
}

int modules_finish(struct modules *m, struct trace *t, struct err *e)
{
    if (!m->pid || (m->last_read && t->callstacks.frames.len == m->frames_read))
        return 0;
    m->frames_read = t->callstacks.frames.len;
    return modules_read(m, t, e);
}
