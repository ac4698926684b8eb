#include "analysis/tables/zone_texts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES (ZONE_TEXTS_PAGE * sizeof(uint32_t))

void zone_texts_init(struct zone_texts *t, const char *dir)
{
    *t = (struct zone_texts){.dir = dir, .fd = -1};
    if (!t->dir)
        t->dir = getenv("TMPDIR");
    if (!t->dir || !*t->dir)
        t->dir = "/var/tmp";
}

void zone_texts_release(struct zone_texts *t)
{
    for (size_t i = 0; i < ZONE_TEXTS_CACHED; i++)
        free(t->pages[i]);
    if (t->fd >= 0)
        close(t->fd);
    *t = (struct zone_texts){.fd = -1};
}

static int open_temporary(struct zone_texts *t, struct err *e)
{
    t->fd = open(t->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (t->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/tidemark-texts-XXXXXX", t->dir);
        if (len > 0 && (size_t)len < sizeof path)
            t->fd = mkostemp(path, O_CLOEXEC);
        if (t->fd >= 0)
            unlink(path);
    }
    return t->fd >= 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot make a temporary file in %s", t->dir);
}

static int write_page(struct zone_texts *t, uint64_t number, const uint32_t *page, struct err *e)
{
    if (t->fd < 0 && open_temporary(t, e) != 0)
        return -1;
    for (size_t done = 0; done < PAGE_BYTES;) {
        ssize_t n = pwrite(t->fd, (const uint8_t *)page + done, PAGE_BYTES - done,
                           (off_t)(number * PAGE_BYTES + done));
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_OUTPUT, "cannot write a temporary file in %s", t->dir);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int read_page(struct zone_texts *t, uint64_t number, uint32_t *page, struct err *e)
{
    for (size_t done = 0; done < PAGE_BYTES;) {
        ssize_t n = pread(t->fd, (uint8_t *)page + done, PAGE_BYTES - done,
                          (off_t)(number * PAGE_BYTES + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return err_errno(e, ERR_OUTPUT, "cannot read a temporary file in %s", t->dir);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* While texts are added, an evicted page goes to the file; afterwards it is already there. */
int zone_texts_add(struct zone_texts *t, uint32_t text, struct err *e)
{
    uint64_t number = t->len / ZONE_TEXTS_PAGE;
    size_t slot = number % ZONE_TEXTS_CACHED;
    if (t->len % ZONE_TEXTS_PAGE == 0) {
        if (t->pages[slot] && write_page(t, t->held[slot], t->pages[slot], e) != 0)
            return -1;
        if (!t->pages[slot])
            t->pages[slot] = calloc(1, PAGE_BYTES);
        if (!t->pages[slot])
            return err_no_memory(e, "the texts of zones");
        t->held[slot] = number;
    }
    t->pages[slot][t->len++ % ZONE_TEXTS_PAGE] = text;
    return 0;
}

static int fetch_page(struct zone_texts *t, size_t slot, uint64_t number, struct err *e)
{
    /*
     * If all pages are in memory, they are written to the file once, since they are evicted from
     * now on.
     */
    uint64_t pages = (t->len + ZONE_TEXTS_PAGE - 1) / ZONE_TEXTS_PAGE;
    if (t->held[slot] + ZONE_TEXTS_CACHED >= pages &&
        write_page(t, t->held[slot], t->pages[slot], e) != 0)
        return -1;
    if (read_page(t, number, t->pages[slot], e) != 0)
        return -1;
    t->held[slot] = number;
    return 0;
}

int zone_texts_get(struct zone_texts *t, uint32_t extra, uint32_t *text, struct err *e)
{
    uint64_t number = extra / ZONE_TEXTS_PAGE;
    size_t slot = number % ZONE_TEXTS_CACHED;
    *text = 0;
    if (extra >= t->len)
        return 0;
    if (t->held[slot] != number && fetch_page(t, slot, number, e) != 0)
        return -1;
    *text = t->pages[slot][extra % ZONE_TEXTS_PAGE];
    return 0;
}
