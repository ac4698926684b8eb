/*
 * Any bytes as a module table, and any addresses looked up in it: what is found covers the address,
 * and each line that was taken can be written and read again.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "symbols/place/locate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct module *m)
{
    struct module_table again = {0};
    struct buf line = {0};
    char id[2 * BUILD_ID_MAX + 1];
    struct err e = {0};
    build_id_text(&m->build_id, id);
    buf_printf(&line, "%" PRIx64 "-%" PRIx64 " %" PRIx64 " %s %s", m->start, m->end, m->offset, id,
               m->path);
    struct view text = {buf_str(&line), line.len};
    if (module_table_add_line(&again, text, &e) != 0)
        abort();
    /* What says "(deleted)" twice loses one each time; a carriage return at the end goes. */
    if (again.list.len != 1 || again.list.at[0].start != m->start ||
        again.list.at[0].end != m->end || again.list.at[0].offset != m->offset ||
        again.list.at[0].build_id.len != m->build_id.len ||
        strncmp(again.list.at[0].path, m->path, strlen(again.list.at[0].path)) != 0)
        abort();
    buf_release(&line);
    module_table_release(&again);
}

static void check_find(const struct module_table *t, uint64_t address)
{
    const struct module *m = module_table_find(t, address, "/x");
    if (m && (address < m->start || address >= m->end))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct module_table t = {0};
    struct err e = {0};
    struct locate l;
    struct locate_frame frames[2] = {{.image = {"/x", 2}}, {.image = {"/x", 2}, .listed = true}};
    if (size >= 16) {
        memcpy(&frames[0].address, data, 8);
        memcpy(&frames[0].symbol, data + 8, 8);
        frames[0].unresolved = frames[0].address & 1;
        frames[1].address = frames[1].symbol = frames[0].symbol;
    }
    (void)module_table_add_text(&t, (struct view){(const char *)data, size}, "FILE", &e);
    if (module_table_sort(&t, &e) != 0)
        abort();
    for (size_t i = 0; i < t.list.len; i++) {
        check_line(&t.list.at[i]);
        check_find(&t, t.list.at[i].start);
        check_find(&t, t.list.at[i].end);
    }
    const struct locate_options options = {.facts = &t, .file = &t};
    locate_init(&l, &options);
    if (locate_frames(&l, frames, 2, &e) != 0)
        abort();
    for (size_t i = 0; i < l.images.len; i++)
        locate_set_bias(&l, i, frames[0].symbol);
    locate_release(&l);
    module_table_release(&t);
    return 0;
}
