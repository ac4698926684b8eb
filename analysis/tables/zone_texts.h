#ifndef TIDEMARK_ANALYSIS_TABLES_ZONE_TEXTS_H
#define TIDEMARK_ANALYSIS_TABLES_ZONE_TEXTS_H

/*
 * The text of each zone extra, by its number. A trace has as many extras as zones with a text, so
 * only the pages last used are in memory, and the rest in an unlinked temporary file that is made
 * when they do not fit. Zones name extras almost in order: a page is seldom read twice.
 */

#include <stdint.h>

#include "base/err.h"

#define ZONE_TEXTS_PAGE 16384u /* numbers */
#define ZONE_TEXTS_CACHED 128u /* pages: 8 MiB */

struct zone_texts {
    const char *dir;
    int fd;       /* -1 until needed */
    uint64_t len; /* numbers in all */
    uint32_t *pages[ZONE_TEXTS_CACHED];
    uint64_t held[ZONE_TEXTS_CACHED]; /* which page that is */
};

/* `dir` for the temporary file, NULL: $TMPDIR, else /var/tmp; must outlive the texts. */
void zone_texts_init(struct zone_texts *t, const char *dir);
void zone_texts_release(struct zone_texts *t);

/* Appends the string number of the next extra's text; all must be there before the first is asked.
 */
int zone_texts_add(struct zone_texts *t, uint32_t text, struct err *e);

/* The string number of an extra's text; 0 for one that does not exist. */
int zone_texts_get(struct zone_texts *t, uint32_t extra, uint32_t *text, struct err *e);

#endif
