#include "cli/baseline_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/outfile.h"
#include "report/runs_report.h"

#define STAMP_SIZE 64

/* ---- names */

static char *take(struct buf *b)
{
    char *text = b->failed ? NULL : strdup(buf_str(b));
    buf_release(b);
    return text;
}

char *baseline_branch_folder(const char *folder, const char *branch, struct err *e)
{
    struct buf b = {0};
    buf_printf(&b, "%s/", folder);
    for (const char *p = branch; *p; p++) {
        bool plain = isalnum((unsigned char)*p) || strchr("_-+", *p) || (*p == '.' && p != branch);
        if (plain)
            buf_u8(&b, (uint8_t)*p);
        else
            buf_printf(&b, "%%%02X", (unsigned char)*p);
    }
    char *path = take(&b);
    if (!path)
        err_no_memory(e, "a name");
    return path;
}

static int digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

char *baseline_branch_name(const char *subfolder)
{
    struct buf b = {0};
    for (const char *p = subfolder; *p; p++) {
        if (*p == '%' && digit(p[1]) >= 0 && digit(p[2]) >= 0) {
            buf_u8(&b, (uint8_t)(digit(p[1]) * 16 + digit(p[2])));
            p += 2;
        } else {
            buf_u8(&b, (uint8_t)*p);
        }
    }
    return take(&b);
}

/* "20261126T065011.123456789Z" */
static void put_stamp(char out[STAMP_SIZE], const struct timespec *t)
{
    struct tm parts;
    char date[32];
    gmtime_r(&t->tv_sec, &parts);
    strftime(date, sizeof date, "%Y%m%dT%H%M%S", &parts);
    snprintf(out, STAMP_SIZE, "%s.%09ldZ", date, t->tv_nsec);
}

/* ---- adding */

/* As mkdir -p. */
static int make_folder(const char *path, struct err *e)
{
    char *copy = strdup(path);
    int status = copy ? 0 : err_no_memory(e, "a name");
    for (char *p = copy; status == 0 && p;) {
        p = strchr(p + 1, '/');
        if (p)
            *p = 0;
        if (*copy && mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = err_errno(e, ERR_OUTPUT, "cannot make the folder %s", copy);
        if (p)
            *p = '/';
    }
    free(copy);
    return status;
}

static int write_figures(const char *path, const struct run_figures *f, struct err *e)
{
    struct outfile o;
    if (outfile_open(&o, path, false, e) != 0)
        return -1;
    FILE *out = outfile_stream(&o, e);
    int status = out ? run_figures_write(f, out, e) : -1;
    if (out && fclose(out) != 0 && status == 0)
        status = err_errno(e, ERR_OUTPUT, "cannot write %s", path);
    if (status == 0)
        status = outfile_commit(&o, e);
    outfile_abort(&o);
    return status;
}

int baseline_add(const char *branch_folder, const struct run_figures *f, struct err *e)
{
    struct timespec now;
    char stamp[STAMP_SIZE];
    struct buf path = {0};
    if (make_folder(branch_folder, e) != 0)
        return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    put_stamp(stamp, &now);
    buf_printf(&path, "%s/%s.json", branch_folder, stamp);
    int status = path.failed ? err_no_memory(e, "a name") : write_figures(buf_str(&path), f, e);
    buf_release(&path);
    return status;
}

/* ---- retention */

/* Whether the name is one of baseline_add: other files of the folder are the user's. */
static int is_figures(const struct dirent *d)
{
    return strspn(d->d_name, "0123456789") == 8 && d->d_name[8] == 'T' &&
           strlen(d->d_name) == strlen("20261126T065011.123456789Z.json") &&
           strcmp(strchr(d->d_name, '\0') - 6, "Z.json") == 0;
}

static int remove_run(const char *folder, const char *name, struct err *e)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", folder, name);
    int status = 0;
    if (path.failed)
        status = err_no_memory(e, "a name");
    else if (unlink(buf_str(&path)) != 0 && errno != ENOENT) /* another job may have removed it */
        status = err_errno(e, ERR_OUTPUT, "cannot remove %s", buf_str(&path));
    buf_release(&path);
    return status;
}

int baseline_retain(const char *branch_folder, uint64_t keep, double seconds, uint64_t *left,
                    uint64_t *removed, struct err *e)
{
    struct dirent **names;
    struct timespec since;
    char oldest[STAMP_SIZE];
    int n = scandir(branch_folder, &names, is_figures, alphasort), status = 0;
    if (n < 0)
        return err_errno(e, ERR_OUTPUT, "cannot read %s", branch_folder);
    clock_gettime(CLOCK_REALTIME, &since);
    since.tv_sec -= seconds < (double)since.tv_sec ? (time_t)seconds : since.tv_sec;
    put_stamp(oldest, &since);
    *left = *removed = 0;
    for (int i = 0; i < n; i++) {
        bool goes = (keep && (uint64_t)(n - i) > keep) ||
                    (seconds > 0 && strcmp(names[i]->d_name, oldest) < 0);
        if (goes && status == 0)
            status = remove_run(branch_folder, names[i]->d_name, e);
        *removed += goes;
        *left += !goes;
        free(names[i]);
    }
    free(names);
    return status;
}
