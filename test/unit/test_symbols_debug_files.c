/* Where debug files are found, and what is not opened or not believed. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_maker.h"
#include "symbols/elf/debug_files.h"
#include "symbols/elf/debug_link.h"
#include "symbols/elf/debug_paths.h"
#include "symbols/elf/regular_file.h"

/* A folder of files for one test, with a search in it. */
struct place {
    char root[64];
    char debug[96]; /* the debug directory */
    const char *dirs[1];
    struct debug_search search;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    if (!p)
        return -1;
    snprintf(p->root, sizeof p->root, "/tmp/tidemark-debug-XXXXXX");
    if (!mkdtemp(p->root))
        return -1;
    snprintf(p->debug, sizeof p->debug, "%s/dbg", p->root);
    p->dirs[0] = p->debug;
    p->search = (struct debug_search){.dirs = p->dirs, .dir_count = 1};
    *state = p;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int teardown(void **state)
{
    struct place *p = *state;
    nftw(p->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return 0;
}

/* ---- files */

static const char *path_of(const struct place *p, const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", p->root, name);
    return out;
}

/* Writes `b` below the place, with the folders that it needs. Returns its CRC. */
static uint32_t put_file(const struct place *p, const char *name, const struct buf *b)
{
    char path[256];
    snprintf(path, sizeof path, "%s", path_of(p, name));
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
    return debug_link_crc(buf_view(b));
}

/* What a made file has; 0 or NULL: not that. */
struct contents {
    uint8_t id; /* all bytes of a build id of 4 */
    const char *section;
    const char *link; /* .gnu_debuglink */
    uint32_t crc;
    const char *alt; /* .gnu_debugaltlink */
    uint8_t alt_id;
};

static uint32_t put_elf(const struct place *p, const char *name, struct contents c)
{
    struct elf_maker m = {0};
    struct buf note = {0}, link = {0}, alt = {0}, file = {0};
    if (c.id) {
        buf_put(&note, "\4\0\0\0\4\0\0\0\3\0\0\0GNU", 16);
        for (int i = 0; i < 4; i++)
            buf_u8(&note, c.id);
        elf_maker_add(&m, ".note.gnu.build-id", SHT_NOTE, 0, note.data, note.len);
    }
    if (c.section)
        elf_maker_add(&m, c.section, SHT_PROGBITS, 0, "what it says", 12);
    if (c.link) {
        buf_put(&link, c.link, strlen(c.link) + 1);
        while (link.len % 4)
            buf_u8(&link, 0);
        buf_u32(&link, c.crc);
        elf_maker_add(&m, ".gnu_debuglink", SHT_PROGBITS, 0, link.data, link.len);
    }
    if (c.alt) {
        buf_put(&alt, c.alt, strlen(c.alt) + 1);
        for (int i = 0; i < 4; i++)
            buf_u8(&alt, c.alt_id);
        elf_maker_add(&m, ".gnu_debugaltlink", SHT_PROGBITS, 0, alt.data, alt.len);
    }
    elf_maker_write(&m, &file);
    assert_false(file.failed);
    uint32_t crc = put_file(p, name, &file);
    buf_release(&note);
    buf_release(&link);
    buf_release(&alt);
    buf_release(&file);
    return crc;
}

#define DEBUG ".debug_info"

static struct build_id id_of(uint8_t byte)
{
    struct build_id id = {.len = 4};
    memset(id.bytes, byte, 4);
    return id;
}

/* ---- what is found */

static struct debug_file open_image(struct place *p, const char *name)
{
    struct debug_file image;
    struct err e = {0};
    struct debug_search s = p->search;
    s.trust_paths = true;
    if (debug_image_open(&s, path_of(p, name), NULL, &image, &e) != 0)
        fail_msg("%s", e.text);
    return image;
}

static void assert_found(const struct place *p, struct debug_file *f, const char *name)
{
    if (!f->elf)
        fail_msg("%s is not found; %s", name, f->refused.text);
    assert_string_equal(f->path, path_of(p, name));
    debug_file_release(f);
}

static void assert_none(struct debug_file *f, const char *refused)
{
    if (f->elf)
        fail_msg("%s is found", f->path);
    if (refused ? !strstr(f->refused.text, refused) : f->refused.code != ERR_NONE)
        fail_msg("refused: %s", f->refused.text);
    debug_file_release(f);
}

/* The debug file of image `name` is at `debug`; or there is none, for the cause `refused`. */
static void check_debug(struct place *p, const char *name, const char *debug, const char *refused)
{
    struct debug_file image = open_image(p, name), found;
    struct err e = {0};
    assert_int_equal(debug_file_find(&p->search, &image, NULL, &found, &e), 0);
    if (debug)
        assert_found(p, &found, debug);
    else
        assert_none(&found, refused);
    debug_file_release(&image);
}

static void by_build_id(void **state)
{
    struct place *p = *state;
    struct debug_file found, none = {0};
    struct build_id id = id_of(0xab);
    put_elf(p, "bin/prog", (struct contents){.id = 0xab});
    check_debug(p, "bin/prog", NULL, NULL);
    put_elf(p, "dbg/.build-id/ab/ababab.debug", (struct contents){.id = 0xcd, .section = DEBUG});
    check_debug(p, "bin/prog", NULL, "its build id is cdcdcdcd, not abababab");
    put_elf(p, "dbg/.build-id/ab/ababab.debug", (struct contents){.id = 0xab});
    check_debug(p, "bin/prog", NULL, "neither debug information nor symbols");
    put_elf(p, "dbg/.build-id/ab/ababab.debug", (struct contents){.id = 0xab, .section = DEBUG});
    check_debug(p, "bin/prog", "dbg/.build-id/ab/ababab.debug", NULL);
    /* Without the image, its build id is enough. */
    assert_int_equal(debug_file_find(&p->search, &none, &id, &found, NULL), 0);
    assert_found(p, &found, "dbg/.build-id/ab/ababab.debug");
    /* An image that has it all needs none. */
    put_elf(p, "bin/prog", (struct contents){.id = 0xab, .section = DEBUG});
    check_debug(p, "bin/prog", NULL, NULL);
}

static void by_debuglink(void **state)
{
    struct place *p = *state;
    char repeated[160];
    uint32_t crc = put_elf(p, "bin/prog.debug", (struct contents){.section = DEBUG});
    put_elf(p, "bin/prog", (struct contents){.link = "prog.debug", .crc = crc});
    check_debug(p, "bin/prog", "bin/prog.debug", NULL);
    put_elf(p, "bin/prog", (struct contents){.link = "prog.debug", .crc = crc + 1});
    check_debug(p, "bin/prog", NULL, "its CRC is not");
    put_elf(p, "bin/prog", (struct contents){.link = "other.debug", .crc = crc});
    check_debug(p, "bin/prog", NULL, NULL);
    put_elf(p, "bin/.debug/other.debug", (struct contents){.section = DEBUG});
    check_debug(p, "bin/prog", "bin/.debug/other.debug", NULL);
    assert_int_equal(remove(path_of(p, "bin/.debug/other.debug")), 0);
    snprintf(repeated, sizeof repeated, "dbg%s/bin/other.debug", p->root);
    put_elf(p, repeated, (struct contents){.section = DEBUG});
    check_debug(p, "bin/prog", repeated, NULL);
    /* Through a link the folder that it really is in counts too. */
    assert_int_equal(mkdir(path_of(p, "links"), 0777), 0);
    assert_int_equal(symlink("../bin/prog", path_of(p, "links/prog")), 0);
    check_debug(p, "links/prog", repeated, NULL);
}

static void build_ids_go_before_the_crc(void **state)
{
    struct place *p = *state;
    uint32_t crc = put_elf(p, "prog.debug", (struct contents){.id = 2, .section = DEBUG});
    put_elf(p, "prog", (struct contents){.id = 1, .link = "prog.debug", .crc = crc});
    check_debug(p, "prog", NULL, "its build id is 02020202, not 01010101");
    put_elf(p, "prog", (struct contents){.id = 2, .link = "prog.debug", .crc = 5});
    check_debug(p, "prog", "prog.debug", NULL);
    /* Without a link, the usual name will do when the build id tells. */
    put_elf(p, "prog", (struct contents){.id = 2});
    check_debug(p, "prog", "prog.debug", NULL);
    put_elf(p, "prog", (struct contents){0});
    check_debug(p, "prog", NULL, NULL);
}

static void links_that_lead_elsewhere(void **state)
{
    struct place *p = *state;
    uint32_t crc = put_elf(p, "secret", (struct contents){.section = DEBUG});
    put_elf(p, "bin/prog", (struct contents){.link = "../secret", .crc = crc});
    check_debug(p, "bin/prog", NULL, "not the name of a file");
    put_elf(p, "bin/prog", (struct contents){.link = "..", .crc = crc});
    check_debug(p, "bin/prog", NULL, "not the name of a file");
    put_elf(p, "bin/prog", (struct contents){.link = "prog", .crc = crc}); /* itself */
    check_debug(p, "bin/prog", NULL, NULL);
}

static void only_regular_files_are_opened(void **state)
{
    struct place *p = *state;
    put_elf(p, "bin/prog", (struct contents){.link = "fifo", .crc = 1});
    assert_int_equal(mkfifo(path_of(p, "bin/fifo"), 0666), 0);
    check_debug(p, "bin/prog", NULL, "not a regular file"); /* and does not wait for a writer */
    assert_int_equal(regular_file_open(path_of(p, "bin")), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(regular_file_open("/dev/null"), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(regular_file_open(path_of(p, "bin/none")), -1);
    assert_int_equal(errno, ENOENT);
    struct buf text = {0};
    buf_puts(&text, "not an ELF file");
    assert_int_equal(remove(path_of(p, "bin/fifo")), 0);
    put_file(p, "bin/fifo", &text);
    check_debug(p, "bin/prog", NULL, "no ELF file");
    buf_release(&text);
}

static void sysroots(void **state)
{
    struct place *p = *state;
    const char *dirs[] = {"/usr/lib/debug"};
    struct debug_search s = {.sysroot = p->root, .dirs = dirs, .dir_count = 1, .trust_paths = true};
    struct debug_file image, found;
    put_elf(p, "usr/bin/prog-of-another-host",
            (struct contents){.id = 7, .link = "x.debug", .crc = 1});
    put_elf(p, "usr/lib/debug/usr/bin/x.debug", (struct contents){.id = 7, .section = DEBUG});
    assert_int_equal(debug_image_open(&s, "/usr/bin/prog-of-another-host", NULL, &image, NULL), 0);
    assert_string_equal(image.path, path_of(p, "usr/bin/prog-of-another-host"));
    assert_int_equal(debug_file_find(&s, &image, NULL, &found, NULL), 0);
    assert_found(p, &found, "usr/lib/debug/usr/bin/x.debug");
    assert_int_equal(remove(path_of(p, "usr/lib/debug/usr/bin/x.debug")), 0);
    put_elf(p, "usr/lib/debug/.build-id/07/070707.debug",
            (struct contents){.id = 7, .section = DEBUG});
    assert_int_equal(debug_file_find(&s, &image, NULL, &found, NULL), 0);
    assert_found(p, &found, "usr/lib/debug/.build-id/07/070707.debug");
    debug_file_release(&image);
}

/* ---- images */

static void assert_no_image(const struct debug_search *s, const char *path,
                            const struct build_id *id, const char *cause)
{
    struct debug_file image;
    struct err e = {0};
    assert_int_equal(debug_image_open(s, path, id, &image, &e), -1);
    assert_null(image.elf);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, cause))
        fail_msg("'%s' does not say '%s'", e.text, cause);
}

static void images_are_checked(void **state)
{
    struct place *p = *state;
    struct build_id id = id_of(3), other = id_of(4);
    struct debug_file image;
    put_elf(p, "prog", (struct contents){.id = 3});
    assert_no_image(&p->search, path_of(p, "prog"), NULL, "may not be opened unchecked");
    assert_no_image(&p->search, path_of(p, "prog"), &other, "its build id is 03030303, not 04");
    assert_no_image(&p->search, path_of(p, "none"), &id, "no such file");
    assert_int_equal(debug_image_open(&p->search, path_of(p, "prog"), &id, &image, NULL), 0);
    assert_found(p, &image, "prog");
    put_elf(p, "dbg/.build-id/04/040404", (struct contents){.id = 4});
    assert_int_equal(debug_image_open(&p->search, path_of(p, "prog"), &other, &image, NULL), 0);
    assert_found(p, &image, "dbg/.build-id/04/040404");
    p->search.trust_paths = true;
    assert_int_equal(debug_image_open(&p->search, path_of(p, "prog"), NULL, &image, NULL), 0);
    assert_found(p, &image, "prog");
}

static void substitutions_in_paths_of_images(void **state)
{
    struct place *p = *state;
    struct build_id id = id_of(3);
    struct substitutions rules = {0};
    struct debug_file image;
    char rule[128];
    snprintf(rule, sizeof rule, "^/build/host;%s", p->root);
    assert_int_equal(substitutions_add(&rules, rule, NULL), 0);
    p->search.substitutions = &rules;
    p->search.sysroot = "/nowhere"; /* what a rule gives is a path of this machine */
    put_elf(p, "lib/x.so", (struct contents){.id = 3});
    assert_int_equal(debug_image_open(&p->search, "/build/host/lib/x.so", &id, &image, NULL), 0);
    assert_found(p, &image, "lib/x.so");
    substitutions_release(&rules);
}

/* ---- fetching */

struct fetched {
    const char *path; /* NULL: nobody has it; "": an error */
    unsigned asked;
    bool executable;
};

static int fetch(void *ctx, const struct build_id *id, bool executable, int *fd, struct err *e)
{
    struct fetched *f = ctx;
    f->asked++;
    f->executable = executable;
    assert_int_equal(id->bytes[0], 9);
    *fd = -1;
    if (!f->path)
        return 0;
    if (!*f->path)
        return err_set(e, ERR_CONNECT, "no server answers");
    *fd = open(f->path, O_RDONLY | O_CLOEXEC);
    assert_true(*fd >= 0);
    return 0;
}

static void what_is_fetched_is_checked(void **state)
{
    struct place *p = *state;
    struct fetched f = {0};
    struct debug_file found, none = {0};
    struct build_id id = id_of(9);
    put_elf(p, "right", (struct contents){.id = 9, .section = DEBUG});
    put_elf(p, "wrong", (struct contents){.id = 8, .section = DEBUG});
    put_elf(p, "prog", (struct contents){.id = 9});
    p->search.fetch = fetch;
    p->search.fetch_ctx = &f;
    check_debug(p, "prog", NULL, NULL);
    assert_int_equal(f.asked, 1);
    f.path = "";
    check_debug(p, "prog", NULL, "no server answers");
    f.path = path_of(p, "wrong");
    check_debug(p, "prog", NULL, "a fetched file: its build id is 08080808, not 09090909");
    f.path = path_of(p, "right");
    assert_int_equal(debug_file_find(&p->search, &none, &id, &found, NULL), 0);
    assert_non_null(found.elf);
    assert_null(found.path);
    assert_false(f.executable);
    debug_file_release(&found);
    assert_int_equal(debug_image_open(&p->search, "/none", &id, &found, NULL), 0);
    assert_true(f.executable);
    debug_file_release(&found);
    /* What is at hand is not asked for. */
    f.asked = 0;
    put_elf(p, "dbg/.build-id/09/090909.debug", (struct contents){.id = 9, .section = DEBUG});
    check_debug(p, "prog", "dbg/.build-id/09/090909.debug", NULL);
    assert_int_equal(f.asked, 0);
}

/* ---- alternate files and split DWARF */

static void check_alt(struct place *p, const char *alt, const char *refused)
{
    struct debug_file debug = open_image(p, "dbg/sub/x.debug"), found;
    assert_int_equal(debug_alt_find(&p->search, &debug, &found, NULL), 0);
    if (alt)
        assert_found(p, &found, alt);
    else
        assert_none(&found, refused);
    debug_file_release(&debug);
}

static void alternate_files(void **state)
{
    struct place *p = *state;
    struct contents debug = {.section = DEBUG, .alt = "../common", .alt_id = 6};
    struct contents common = {.id = 6, .section = DEBUG};
    char absolute[160];
    put_elf(p, "dbg/sub/x.debug", debug);
    check_alt(p, NULL, NULL);
    put_elf(p, "dbg/common", (struct contents){.id = 5, .section = DEBUG});
    check_alt(p, NULL, "its build id is 05050505, not 06060606");
    put_elf(p, "dbg/common", common);
    check_alt(p, "dbg/common", NULL);
    put_elf(p, "dbg/.dwz/common", common); /* goes before what is stated */
    check_alt(p, "dbg/.dwz/common", NULL);
    put_elf(p, "dbg/.build-id/06/060606.debug", common);
    check_alt(p, "dbg/.build-id/06/060606.debug", NULL);
    /* As Debian states them: an absolute path, with a folder for the architecture. */
    debug.alt = "/usr/lib/debug/.dwz/x86_64-linux-gnu/pkg.debug";
    debug.alt_id = 7;
    common.id = 7;
    put_elf(p, "dbg/sub/x.debug", debug);
    put_elf(p, "dbg/.dwz/x86_64-linux-gnu/pkg.debug", common);
    check_alt(p, "dbg/.dwz/x86_64-linux-gnu/pkg.debug", NULL);
    /* Out of the debug directories only when that is allowed. */
    put_elf(p, "elsewhere", common);
    assert_int_equal(remove(path_of(p, "dbg/.dwz/x86_64-linux-gnu/pkg.debug")), 0);
    debug.alt = "../../elsewhere";
    put_elf(p, "dbg/sub/x.debug", debug);
    check_alt(p, NULL, "may not be opened on the word of");
    snprintf(absolute, sizeof absolute, "%s/dbg/../elsewhere", p->root);
    debug.alt = absolute;
    put_elf(p, "dbg/sub/x.debug", debug);
    check_alt(p, NULL, "may not be opened on the word of");
    p->search.trust_paths = true;
    check_alt(p, "elsewhere", NULL);
}

static bool has_mark(void *ctx, struct elf_file *dwo)
{
    return elf_file_has_section(dwo, ctx);
}

static void check_dwo(struct place *p, const char *comp_dir, const char *name, const char *want,
                      const char *refused)
{
    struct debug_file image = open_image(p, "bin/prog"), none = {0}, found;
    assert_int_equal(debug_dwo_find(&p->search, &image, &none, view_of(comp_dir), view_of(name),
                                    has_mark, ".mark", &found, NULL),
                     0);
    if (want)
        assert_found(p, &found, want);
    else
        assert_none(&found, refused);
    debug_file_release(&image);
}

static void split_files(void **state)
{
    struct place *p = *state;
    struct substitutions rules = {0};
    char rule[128], build[96];
    put_elf(p, "bin/prog", (struct contents){.id = 1});
    put_elf(p, "build/out/a.dwo", (struct contents){.section = ".mark"});
    snprintf(build, sizeof build, "%s/build", p->root);
    check_dwo(p, build, "out/a.dwo", NULL, "may not be opened on the word of");
    snprintf(rule, sizeof rule, "^/src;%s/build", p->root);
    assert_int_equal(substitutions_add(&rules, rule, NULL), 0);
    p->search.substitutions = &rules;
    check_dwo(p, "/src", "out/a.dwo", "build/out/a.dwo", NULL);
    check_dwo(p, "/src/x", "../../src/out/a.dwo", "build/out/a.dwo", NULL);
    p->search.substitutions = NULL;
    p->search.trust_paths = true;
    check_dwo(p, build, "out/a.dwo", "build/out/a.dwo", NULL);
    check_dwo(p, "/none", path_of(p, "build/out/a.dwo"), "build/out/a.dwo", NULL);
    p->search.trust_paths = false;
    /* Beside the image always, at its relative place or by its bare name. */
    put_elf(p, "bin/a.dwo", (struct contents){.section = ".other"});
    check_dwo(p, "/none", "out/a.dwo", NULL, "may not be opened");
    put_elf(p, "bin/a.dwo", (struct contents){.section = ".mark"});
    check_dwo(p, "/none", "/gone/a.dwo", "bin/a.dwo", NULL);
    put_elf(p, "bin/out/a.dwo", (struct contents){.section = ".mark"});
    check_dwo(p, "/none", "out/a.dwo", "bin/out/a.dwo", NULL);
    check_dwo(p, "/none", "../bin/out/../a.dwo", "bin/a.dwo", NULL);
    check_dwo(p, "/none", "..", NULL, "may not be opened");
    substitutions_release(&rules);
}

static void packages_of_split_files(void **state)
{
    struct place *p = *state;
    struct debug_file found;
    put_elf(p, "bin/prog", (struct contents){.id = 1});
    put_elf(p, "dbg/prog.debug", (struct contents){.id = 1, .section = DEBUG});
    struct debug_file image = open_image(p, "bin/prog"), debug = open_image(p, "dbg/prog.debug");
    put_elf(p, "bin/prog.dwp", (struct contents){.section = ".text"});
    assert_int_equal(debug_dwp_find(&p->search, &image, &debug, &found, NULL), 0);
    assert_none(&found, "another build");
    put_elf(p, "dbg/prog.dwp", (struct contents){.section = ".debug_info.dwo"});
    assert_int_equal(debug_dwp_find(&p->search, &image, &debug, &found, NULL), 0);
    assert_found(p, &found, "dbg/prog.dwp");
    put_elf(p, "dbg/prog.debug.dwp", (struct contents){.section = ".debug_cu_index"});
    assert_int_equal(debug_dwp_find(&p->search, &image, &debug, &found, NULL), 0);
    assert_found(p, &found, "dbg/prog.debug.dwp");
    put_elf(p, "bin/prog.dwp", (struct contents){.section = ".debug_info.dwo"});
    assert_int_equal(debug_dwp_find(&p->search, &image, &debug, &found, NULL), 0);
    assert_found(p, &found, "bin/prog.dwp");
    debug_file_release(&image);
    debug_file_release(&debug);
}

/* ---- paths as text */

static void check_join(const char *folder, const char *path, const char *want)
{
    struct buf out = {0};
    bool ok = path_join(&out, view_of(folder), view_of(path));
    assert_int_equal(ok, want != NULL);
    if (want)
        assert_string_equal(buf_str(&out), want);
    buf_release(&out);
}

static void paths_as_text(void **state)
{
    struct buf b = {0};
    struct build_id id = id_of(0xfe);
    (void)state;
    check_join("/a/b", "c", "/a/b/c");
    check_join("/a/b", "../c/./d//e", "/a/c/d/e");
    check_join("/a/b", "../..", "/");
    check_join("/a/b", "../../..", NULL);
    check_join("/a", "/x/../y", "/y");
    check_join("a", "../b", "b");
    check_join("a", "..", ".");
    check_join("a", "../../b", NULL);
    check_join("", "x", "x");
    assert_false(path_join(&b, view_of("/a"), (struct view){"x\0y", 3}));
    assert_true(path_is_below(view_of("/a/b"), view_of("/a")));
    assert_true(path_is_below(view_of("/a/b"), view_of("/a/")));
    assert_false(path_is_below(view_of("/ab"), view_of("/a")));
    assert_false(path_is_below(view_of("/a"), view_of("/a")));
    assert_true(view_equal(path_folder(view_of("/x")), view_of("/")));
    assert_true(view_equal(path_folder(view_of("/a//x")), view_of("/a")));
    assert_true(view_equal(path_folder(view_of("x")), view_of(".")));
    assert_true(view_equal(path_base(view_of("/a/x")), view_of("x")));
    assert_true(path_is_name(view_of("..x")));
    assert_false(path_is_name(view_of("a/b")));
    buf_clear(&b);
    assert_true(path_of_build_id(&b, &id, ".debug"));
    assert_string_equal(buf_str(&b), ".build-id/fe/fefefe.debug");
    id.len = 1;
    assert_false(path_of_build_id(&b, &id, ".debug"));
    buf_release(&b);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(by_build_id),
        IN_PLACE(by_debuglink),
        IN_PLACE(build_ids_go_before_the_crc),
        IN_PLACE(links_that_lead_elsewhere),
        IN_PLACE(only_regular_files_are_opened),
        IN_PLACE(sysroots),
        IN_PLACE(images_are_checked),
        IN_PLACE(substitutions_in_paths_of_images),
        IN_PLACE(what_is_fetched_is_checked),
        IN_PLACE(alternate_files),
        IN_PLACE(split_files),
        IN_PLACE(packages_of_split_files),
        cmocka_unit_test(paths_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
