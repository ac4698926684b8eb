#include "server/capture/trace_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"

#define NAME_MAX_BYTES 240u /* bytes; a number and the suffix still fit into a file's name */
#define PROGRAM_MAX 100u
#define HOST_MAX 50u

enum part { PART_PROGRAM, PART_HOST, PART_PORT, PART_PID, PART_TIME, PART_COUNT };

static const char *const parts[PART_COUNT] = {"{program}", "{host}", "{port}", "{pid}", "{time}"};

/* The most bytes of each part. */
static const unsigned part_bytes[PART_COUNT] = {PROGRAM_MAX, HOST_MAX, 5, 20, 16};

/* The part that begins here; PART_COUNT when none does. */
static enum part part_at(const char *p)
{
    int i = 0;
    while (i < PART_COUNT && strncmp(p, parts[i], strlen(parts[i])) != 0)
        i++;
    return (enum part)i;
}

int trace_name_check(const char *name_template, const char *option, struct err *e)
{
    size_t most = 0;
    unsigned seen = 0;
    if (!*name_template || *name_template == '.' || strchr(name_template, '/'))
        return err_set(e, ERR_USAGE, "%s takes the name of a file without folders, not '%s'",
                       option, name_template);
    for (const char *p = name_template; *p;) {
        enum part part = part_at(p);
        if (part == PART_COUNT && (*p == '{' || *p == '}' || (unsigned char)*p < ' '))
            return err_set(e, ERR_USAGE,
                           "%s knows {program}, {host}, {port}, {pid} and {time}, not '%s'", option,
                           p);
        if (part < PART_COUNT && (seen & 1u << part))
            return err_set(e, ERR_USAGE, "%s takes %s once", option, parts[part]);
        seen |= part < PART_COUNT ? 1u << part : 0;
        most += part == PART_COUNT ? 1 : part_bytes[part];
        p += part == PART_COUNT ? 1 : strlen(parts[part]);
    }
    if (most > NAME_MAX_BYTES)
        return err_set(e, ERR_USAGE, "%s: names could be longer than a file's name can be", option);
    return 0;
}

/* Replaces spaces with '_' and other disallowed characters with `other`, or removes them. */
static void put_clean(struct buf *out, const char *text, const char *also, const char *other,
                      size_t most)
{
    size_t before = out->len;
    for (; *text && out->len - before < most; text++) {
        char ch = *text == ' ' || *text == '\t' ? '_' : *text;
        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
            ch == '_' || ch == '-' || strchr(also, ch))
            buf_put(out, &ch, 1);
        else
            buf_puts(out, other);
    }
    if (out->len == before)
        buf_puts(out, "unknown");
}

static void put_time(struct buf *out, uint64_t unix_time)
{
    char text[32] = "unknown";
    time_t when = (time_t)unix_time;
    struct tm tm;
    if (gmtime_r(&when, &tm))
        (void)strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &tm);
    buf_puts(out, text);
}

static void put_part(struct buf *out, enum part part, const struct trace_name_facts *f)
{
    switch (part) {
    case PART_PROGRAM:
        put_clean(out, f->program, "", "", PROGRAM_MAX);
        break;
    case PART_HOST:
        put_clean(out, f->host, ".", "-", HOST_MAX);
        break;
    case PART_PORT:
        buf_printf(out, "%u", f->port);
        break;
    case PART_PID:
        buf_printf(out, "%" PRIu64, f->pid);
        break;
    default:
        put_time(out, f->unix_time);
    }
}

char *trace_name_with_program(const char *name_template, const char *program)
{
    struct buf name = {0};
    while (*name_template) {
        bool here = part_at(name_template) == PART_PROGRAM;
        if (here)
            put_clean(&name, program, "", "", PROGRAM_MAX);
        else
            buf_put(&name, name_template, 1);
        name_template += here ? strlen(parts[PART_PROGRAM]) : 1;
    }
    char *text = name.failed ? NULL : strdup(buf_str(&name));
    buf_release(&name);
    return text;
}

char *trace_name_make(const char *folder, const char *name_template,
                      const struct trace_name_facts *facts, unsigned n)
{
    struct buf path = {0};
    size_t len = strlen(name_template), suffix = strlen(".tracy");
    if (len > suffix && strcmp(name_template + len - suffix, ".tracy") == 0)
        len -= suffix;
    if (strcmp(folder, ".") != 0)
        buf_printf(&path, "%s/", folder);
    size_t name = path.len;
    for (size_t i = 0; i < len;) {
        enum part part = part_at(name_template + i);
        if (part < PART_COUNT)
            put_part(&path, part, facts);
        else
            buf_put(&path, name_template + i, 1);
        i += part < PART_COUNT ? strlen(parts[part]) : 1;
    }
    if (n)
        buf_printf(&path, "_%u", n);
    buf_puts(&path, ".tracy");
    /* A command that gets the name from a glob would take it for an option. */
    if (!path.failed && path.data[name] == '-')
        path.data[name] = '_';
    char *text = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    return text;
}
