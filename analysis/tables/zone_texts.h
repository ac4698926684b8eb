#pragma once

/*
 * The text of each zone extra, by its number. A trace has as many extras as zones with a text, so
 * only the most recently used pages are in memory. The rest is in an unlinked temporary file, which
 * is created when needed. Zones refer to extras almost in order, so a page is rarely read twice.
 */

#include <stdint.h>

#include "base/err.h"

#define ZONE_TEXTS_PAGE 16384u /* numbers */
#define ZONE_TEXTS_CACHED 128u /* pages: 8 MiB */

struct zone_texts {
    const char *dir;
    int fd;       /* -1 until needed */
    uint64_t len; /* total numbers */
    uint32_t *pages[ZONE_TEXTS_CACHED];
    uint64_t held[ZONE_TEXTS_CACHED]; /* number of the page in each slot */
};

/* `dir` for the temporary file, NULL: $TMPDIR, else /var/tmp; must outlive the texts. */
void zone_texts_init(struct zone_texts *t, const char *dir);
void zone_texts_release(struct zone_texts *t);

/*
 * Appends the string number of the next extra's text. All must be added before the first is read.
 */
int zone_texts_add(struct zone_texts *t, uint32_t text, struct err *e);

/* The string number of an extra's text; 0 if there is no such extra. */
int zone_texts_get(struct zone_texts *t, uint32_t extra, uint32_t *text, struct err *e);
