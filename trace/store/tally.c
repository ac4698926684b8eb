#include "trace/store/tally.h"

#include <string.h>

static const struct pack_layout layout = {
    .element = 8, .count = 1, .fields = {{0, 8, PACK_OFFSET}}};

void tally_init(struct tally *t, struct spool *spool)
{
    *t = (struct tally){0};
    column_init(&t->column, spool, &layout, false);
    column_reader_init(&t->reader, &t->column);
}

void tally_release(struct tally *t)
{
    if (!t->column.spool)
        return;
    column_reader_release(&t->reader);
    column_release(&t->column);
}

int tally_add(struct tally *t, uint64_t n, struct err *e)
{
    void *at = column_append(&t->column, e);
    if (!at)
        return -1;
    memcpy(at, &n, sizeof n);
    return 0;
}

int tally_take(struct tally *t, uint64_t *n, struct err *e)
{
    if (t->left == 0) {
        struct err failed = {0};
        t->at = column_reader_next(&t->reader, &t->left, &failed);
        if (!t->at && failed.code != ERR_NONE) {
            *e = failed;
            return -1;
        }
        if (!t->at)
            return err_set(e, ERR_INPUT, "the input changed while it was read");
    }
    t->left--;
    memcpy(n, t->at++, sizeof *n);
    return 0;
}
