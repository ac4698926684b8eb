/* The cache file. */

#include "symbols/index_parts.h"

int symbol_index_save(const struct symbol_index *x, int fd, struct view key, struct err *e)
{
    (void)x;
    (void)fd;
    (void)key;
    return err_set(e, ERR_OUTPUT, "not yet");
}
int symbol_index_load(struct symbol_index **out, int fd, struct view key, struct err *e)
{
    (void)out;
    (void)fd;
    (void)key;
    return err_set(e, ERR_INPUT, "not yet");
}
