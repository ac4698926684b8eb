#include "server/sinks/compact_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/tables/fleet.h"
#include "server/sinks/compact_day.h"

#define DAY "day="
#define DAY_SECONDS 86400
#define DAYS_MOST 1000000u

struct compact {
    const char *folder;
    struct compact_plan *plan;
    struct compact_told *told;
    int dir; /* FOLDER; locked while a day is compacted */
    VEC(char *) days;
};

/* ---- rules */

bool compact_rule_parse(struct compact_rule *rule, const char *value)
{
    const char *colon = strrchr(value, ':');
    const char *equals = strchr(value, '=');
    const char *digits = colon ? colon + 1 : value;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 7 || digits[n] || (colon && (!equals || equals == value || equals > colon)))
        return false;
    *rule = (struct compact_rule){.label = colon ? value : NULL,
                                  .label_length = colon ? (size_t)(colon - value) : 0,
                                  .days = strtoull(digits, NULL, 10)};
    return rule->days <= DAYS_MOST;
}

/* Sets the day's age. False: the name is not that of a day. */
static bool read_age(struct compact_day *d, const char *name, int64_t today)
{
    char again[sizeof DAY "YYYY-MM-DD"];
    struct tm tm = {0};
    d->day = name;
    if (strncmp(name, DAY, strlen(DAY)) != 0 ||
        sscanf(name + strlen(DAY), "%4d-%2d-%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday) != 3)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    time_t at = timegm(&tm);
    if (strftime(again, sizeof again, DAY "%Y-%m-%d", &tm) == 0 || strcmp(again, name) != 0)
        return false;
    d->age = at ? today - at / DAY_SECONDS : -1;
    return true;
}

static bool is_label(const struct compact_rule *rule, const struct cell *cells)
{
    struct view name = cells[FLEET_LABELS_NAME].text;
    struct view value = cells[FLEET_LABELS_VALUE].text;
    return rule->label && rule->label_length == name.len + 1 + value.len &&
           memcmp(rule->label, name.p, name.len) == 0 && rule->label[name.len] == '=' &&
           memcmp(rule->label + name.len + 1, value.p, value.len) == 0;
}

struct labelled {
    struct compact_day *day;
    struct compact_plan *plan;
};

/* Of several rules the longest counts. */
static int note_label(void *ctx, const struct cell *cells, struct err *e)
{
    const struct labelled *l = ctx;
    for (size_t i = 0; i < l->plan->rules.len; i++) {
        struct compact_rule *rule = &l->plan->rules.at[i];
        if (!is_label(rule, cells))
            continue;
        rule->matched = true;
        uint64_t *limit = trace_set_add(&l->day->limits, cells[FLEET_TRACE].text, e);
        if (!limit)
            return -1;
        if (*limit < rule->days + 1)
            *limit = rule->days + 1;
    }
    return 0;
}

/* ---- folders */

typedef int each_name(void *ctx, const char *path, const char *name, struct err *e);

/* Calls `each` for what is in a folder, which need not exist. */
static int each_in(const char *folder, each_name *each, void *ctx, struct err *e)
{
    const struct dirent *entry = NULL;
    struct buf path = {0};
    int status = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ? 0 : err_errno(e, ERR_INPUT, "cannot read %s", folder);
    while (status == 0 && (errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", folder, entry->d_name);
        status = path.failed ? err_no_memory(e, "a file's name")
                             : each(ctx, buf_str(&path), entry->d_name, e);
    }
    if (status == 0 && errno)
        status = err_errno(e, ERR_INPUT, "cannot read %s", folder);
    closedir(dir);
    buf_release(&path);
    return status;
}

static int remove_file(void *ctx, const char *path, const char *name, struct err *e)
{
    (void)ctx;
    (void)name;
    return unlink(path) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot remove %s", path);
}

/* A folder of an earlier compaction. */
static int remove_left(void *ctx, const char *path, const char *name, struct err *e)
{
    (void)name;
    if (each_in(path, remove_file, ctx, e) != 0)
        return -1;
    return rmdir(path) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot remove %s", path);
}

/* ---- a day */

static int note_whole(void *ctx, const char *path, const char *name, struct err *e)
{
    struct compact_day *d = ctx;
    struct view id;
    const char *end = strrchr(name, '.');
    if (!end || strcmp(end, ".parquet") != 0 || strncmp(name, ".", 1) == 0)
        return 0;
    if (trace_file_name(name, &id))
        return trace_set_add(&d->whole, id, e) ? 0 : -1;
    return trace_set_read(&d->whole, path, e) < 0 ? -1 : 0;
}

static int note_labels(void *ctx, const char *path, const char *name, struct err *e)
{
    struct labelled *l = ctx;
    const char *end = strrchr(name, '.');
    if (!end || strcmp(end, ".parquet") != 0 || strncmp(name, ".", 1) == 0)
        return 0;
    int status = table_file_read(path, fleet_table(FLEET_TABLE_LABELS), FLEET_LABELS_WIDTH,
                                 note_label, l, e);
    /* Without its labels, a trace that is to be kept would be dropped. */
    return status <= 0
               ? status
               : err_set(e, ERR_INPUT, "%s has other columns: its labels are unknown", path);
}

static int look_at_day(struct compact_day *d, struct compact_plan *plan, struct err *e)
{
    struct labelled labelled = {d, plan};
    struct buf path = {0};
    bool labels = false;
    d->limit = UINT64_MAX;
    for (size_t i = 0; i < plan->rules.len; i++) {
        labels |= plan->rules.at[i].label != NULL;
        if (!plan->rules.at[i].label)
            d->limit = plan->rules.at[i].days;
    }
    buf_printf(&path, "%s/%s/%s", d->folder, fleet_table(FLEET_TABLE_TRACES)->name, d->day);
    int status = path.failed ? err_no_memory(e, "a folder's name")
                             : each_in(buf_str(&path), note_whole, d, e);
    buf_clear(&path);
    buf_printf(&path, "%s/%s/%s", d->folder, fleet_table(FLEET_TABLE_LABELS)->name, d->day);
    if (status == 0 && labels)
        status = path.failed ? err_no_memory(e, "a folder's name")
                             : each_in(buf_str(&path), note_labels, &labelled, e);
    buf_release(&path);
    return status;
}

/*
 * `traces` is first: the rows of a trace that is not there belong to none. `labels` is last: until
 * all others were dropped they say what is to be dropped, also to a process that follows a killed
 * one.
 */
static int compact_tables(struct compact_day *d, struct err *e)
{
    if (compact_table(d, FLEET_TABLE_TRACES, e) != 0)
        return -1;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        if (i != FLEET_TABLE_TRACES && i != FLEET_TABLE_LABELS && compact_table(d, i, e) != 0)
            return -1;
    }
    return compact_table(d, FLEET_TABLE_LABELS, e);
}

static int compact_day(struct compact *c, const char *name, struct err *e)
{
    struct compact_day d = {.folder = c->folder, .told = c->told};
    if (!read_age(&d, name, c->plan->today))
        return 0;
    if (flock(c->dir, LOCK_EX) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot lock %s", c->folder);
    int status = look_at_day(&d, c->plan, e);
    if (status == 0)
        status = compact_tables(&d, e);
    (void)flock(c->dir, LOCK_UN);
    trace_set_release(&d.whole);
    trace_set_release(&d.limits);
    return status;
}

/* ---- the whole */

static int note_day(void *ctx, const char *path, const char *name, struct err *e)
{
    struct compact *c = ctx;
    (void)path;
    char *copy = strdup(name);
    if (copy && vec_push(&c->days, copy))
        return 0;
    free(copy);
    return err_no_memory(e, "days");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Days of all tables, sorted; a day is there once for each of its tables. */
static int list_days(struct compact *c, struct err *e)
{
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", c->folder, fleet_table(i)->name);
        int status = path.failed ? err_no_memory(e, "a folder's name")
                                 : each_in(buf_str(&path), note_day, c, e);
        buf_release(&path);
        if (status != 0)
            return -1;
    }
    if (c->days.len)
        qsort(c->days.at, c->days.len, sizeof *c->days.at, by_text);
    return 0;
}

static int compact_days(struct compact *c, const char *stage, struct err *e)
{
    if (each_in(stage, remove_left, NULL, e) != 0 || list_days(c, e) != 0)
        return -1;
    for (size_t i = 0; i < c->days.len; i++) {
        if ((i == 0 || strcmp(c->days.at[i], c->days.at[i - 1]) != 0) &&
            compact_day(c, c->days.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/*
 * Opens the folder in which new folders are made, and locks it. It is never removed: a process that
 * has it open would hold the lock of a folder that is not there.
 */
static int open_stage(const char *stage, struct err *e)
{
    if (mkdir(stage, 0777) != 0 && errno != EEXIST)
        return err_errno(e, ERR_OUTPUT, "cannot make the folder %s", stage);
    int fd = open(stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    bool busy = fd >= 0 && errno == EWOULDBLOCK;
    (void)(busy ? err_set(e, ERR_OUTPUT, "another process compacts the folder of %s", stage)
                : err_errno(e, ERR_OUTPUT, "cannot lock %s", stage));
    if (fd >= 0)
        close(fd);
    return -1;
}

int compact_files(const char *folder, struct compact_plan *plan, struct compact_told *told,
                  struct err *e)
{
    struct compact c = {.folder = folder, .plan = plan, .told = told};
    struct buf stage = {0};
    int status = -1;
    buf_printf(&stage, "%s/" COMPACT_STAGE, folder);
    c.dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (stage.failed)
        err_no_memory(e, "a folder's name");
    else if (c.dir < 0)
        err_errno(e, ERR_INPUT, "%s", folder);
    else
        status = 0;
    int lock = status == 0 ? open_stage(buf_str(&stage), e) : -1;
    if (lock >= 0) {
        status = compact_days(&c, buf_str(&stage), e);
        close(lock);
    } else {
        status = -1;
    }
    if (c.dir >= 0)
        close(c.dir);
    for (size_t i = 0; i < c.days.len; i++)
        free(c.days.at[i]);
    vec_release(&c.days);
    buf_release(&stage);
    return status;
}
