/*
 * Any bytes as what an image says about its debug files: .gnu_debuglink or .gnu_debugaltlink (the
 * first byte tells), and a path in a .dwo's name. Nothing is opened outside of where it may be, and
 * what is fetched is held against the build id.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/elf/debug_files.h"
#include "symbols/elf/debug_link.h"
#include "symbols/elf/debug_paths.h"
#include "test/unit/elf_maker.h"

#define NOWHERE "/nowhere/of/fuzz_debug_link"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void make(struct buf *out, const char *section, const uint8_t *data, size_t size)
{
    struct elf_maker m = {0};
    elf_maker_add(&m, ".note.gnu.build-id", SHT_NOTE, 0, "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd", 20);
    elf_maker_add(&m, section, SHT_PROGBITS, 0, data, size);
    elf_maker_write(&m, out);
}

/* Gives back the image itself: for an alternate file it has the right build id or not. */
static int fetch(void *ctx, const struct build_id *id, bool executable, int *fd, struct err *e)
{
    const struct buf *image = ctx;
    check(id->len > 0 && !executable);
    *fd = memfd_create("fetched", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, image->data, image->len) != (ssize_t)image->len)
        return err_set(e, ERR_MEMORY, "no file in memory");
    return 0;
}

static void check_parts(const struct buf *path)
{
    char *text = strndup((const char *)path->data, path->len);
    check(text && strlen(text) == path->len);
    char *rest = text;
    for (char *part = strsep(&rest, "/"); part; part = strsep(&rest, "/"))
        check(strcmp(part, "..") != 0);
    free(text);
}

static void read_paths(struct view name)
{
    static const char *const folders[] = {"/usr/lib/debug", ".dwz", ""};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        struct buf path = {0};
        if (path_join(&path, view_of(folders[i]), name))
            check_parts(&path);
        buf_release(&path);
    }
    if (path_is_name(name))
        check(view_equal(path_base(name), name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const dirs[] = {NOWHERE};
    struct buf bytes = {0};
    struct debug_search s = {.dirs = dirs, .dir_count = 1, .fetch = fetch, .fetch_ctx = &bytes};
    struct debug_file image = {0}, none = {0}, found;
    struct debug_link link;
    if (size < 1)
        return 0;
    make(&bytes, data[0] & 1 ? ".gnu_debuglink" : ".gnu_debugaltlink", data + 1, size - 1);
    if (bytes.failed || elf_file_open_bytes(&image.elf, buf_view(&bytes), NULL, NULL) != 0)
        abort();
    image.path = strdup(NOWHERE "/image");
    struct view text = {(const char *)data + 1, size - 1};
    read_paths(text);
    if (debug_link_read(image.elf, &link))
        read_paths(link.name);
    check(debug_file_find(&s, &image, NULL, &found, NULL) == 0);
    check(!found.elf && found.refused.code != ERR_NONE); /* the image itself is no debug file */
    check(debug_alt_find(&s, &image, &found, NULL) == 0);
    if (found.elf)
        check(debug_altlink_read(image.elf, &link) && link.build_id.len == 4 &&
              memcmp(link.build_id.bytes, "abcd", 4) == 0);
    debug_file_release(&found);
    check(debug_dwo_find(&s, &image, &none, view_of(NOWHERE), text, NULL, NULL, &found, NULL) == 0);
    check(!found.elf);
    debug_file_release(&image);
    buf_release(&bytes);
    return 0;
}
