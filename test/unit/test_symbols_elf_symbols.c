/* Functions by address: which name wins, what lies beyond a function, tables of all sources. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <link.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_maker.h"
#include "symbols/elf/eh_frame.h"
#include "symbols/elf/elf_symbols.h"

#define CODE 0x1000
#define CODE_LEN 0x1000

static const uint8_t code[CODE_LEN];

/* A symbol table and its names. */
struct table {
    struct buf symbols, names;
};

static void put_symbol(struct table *t, bool narrow, const char *name, uint8_t type,
                       uint16_t section, uint64_t address, uint64_t size)
{
    uint8_t info = ELF64_ST_INFO(STB_GLOBAL, type);
    if (t->symbols.len == 0) {
        static const uint8_t none[sizeof(Elf64_Sym)];
        buf_put(&t->symbols, none, narrow ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym));
        buf_u8(&t->names, 0);
    }
    buf_u32(&t->symbols, (uint32_t)t->names.len);
    if (narrow) {
        buf_u32(&t->symbols, (uint32_t)address);
        buf_u32(&t->symbols, (uint32_t)size);
    }
    buf_u8(&t->symbols, info);
    buf_u8(&t->symbols, 0);
    buf_u16(&t->symbols, section);
    if (!narrow) {
        buf_u64(&t->symbols, address);
        buf_u64(&t->symbols, size);
    }
    buf_puts(&t->names, name);
    buf_u8(&t->names, 0);
}

static void function(struct table *t, const char *name, uint64_t address, uint64_t size)
{
    put_symbol(t, false, name, STT_FUNC, 1, address, size);
}

static void table_release(struct table *t)
{
    buf_release(&t->symbols);
    buf_release(&t->names);
}

/* Section 1 is code at `base`. */
static void add_code(struct elf_maker *m, uint64_t base)
{
    elf_maker_add(m, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code, CODE_LEN);
    m->sections[0].address = base;
    m->segments[m->segment_count].type = PT_LOAD;
    m->segments[m->segment_count].flags = PF_R | PF_X;
    m->segments[m->segment_count].address = base;
    m->segments[m->segment_count++].size = CODE_LEN;
}

static void add_table(struct elf_maker *m, const struct table *t, bool dynamic)
{
    const char *names = dynamic ? ".dynstr" : ".strtab";
    size_t i = elf_maker_add(m, names, SHT_STRTAB, 0, t->names.data, t->names.len);
    size_t symbols =
        elf_maker_add(m, dynamic ? ".dynsym" : ".symtab", dynamic ? SHT_DYNSYM : SHT_SYMTAB, 0,
                      t->symbols.data, t->symbols.len);
    m->sections[symbols - 1].link = (uint32_t)i;
    m->sections[symbols - 1].entry_size = m->narrow ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

static struct elf_file *open_made(struct elf_maker *m, struct buf *b)
{
    struct elf_file *f;
    struct err e = {0};
    elf_maker_write(m, b);
    if (elf_file_open_bytes(&f, buf_view(b), NULL, &e) != 0)
        fail_msg("%s", e.text);
    return f;
}

static struct elf_symbols *read_symbols(struct elf_file *image, struct elf_file *debug)
{
    struct elf_symbols *s;
    struct err e = {0};
    if (elf_symbols_read(&s, image, debug, NULL, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

static void assert_at(const struct elf_symbols *s, uint64_t address, const char *want)
{
    struct elf_symbol x;
    bool found = elf_symbols_find(s, address, &x);
    if (!want) {
        if (found)
            fail_msg("%#lx is %.*s", (unsigned long)address, (int)x.name.len, x.name.p);
        return;
    }
    if (!found)
        fail_msg("%#lx is not %s", (unsigned long)address, want);
    if (!view_equal(x.name, view_of(want)))
        fail_msg("%#lx is %.*s, not %s", (unsigned long)address, (int)x.name.len, x.name.p, want);
}

static void check_names(bool narrow)
{
    struct table t = {0};
    struct buf file = {0};
    struct elf_maker m = {.narrow = narrow};
    add_code(&m, CODE);
    put_symbol(&t, narrow, "first", STT_FUNC, 1, CODE + 0x100, 0x20);
    put_symbol(&t, narrow, "outer", STT_FUNC, 1, CODE + 0x200, 0x100);
    put_symbol(&t, narrow, "inner", STT_NOTYPE, 1, CODE + 0x240, 0x10);
    put_symbol(&t, narrow, "innermost", STT_FUNC, 1, CODE + 0x244, 4);
    put_symbol(&t, narrow, "label", STT_NOTYPE, 1, CODE + 0x280, 0); /* up to what comes next */
    put_symbol(&t, narrow, "after", STT_FUNC, 1, CODE + 0x2c0, 0x10);
    put_symbol(&t, narrow, "short", STT_FUNC, 1, CODE + 0x400, 8);
    put_symbol(&t, narrow, "long", STT_FUNC, 1, CODE + 0x400, 16);
    put_symbol(&t, narrow, "long2", STT_FUNC, 1, CODE + 0x400, 16);
    put_symbol(&t, narrow, "short2", STT_FUNC, 1, CODE + 0x400, 8);
    put_symbol(&t, narrow, "source.c", STT_FILE, SHN_ABS, CODE + 0x500, 0);
    put_symbol(&t, narrow, "section", STT_SECTION, 1, CODE + 0x500, 0);
    put_symbol(&t, narrow, "elsewhere", STT_FUNC, SHN_UNDEF, CODE + 0x500, 9);
    put_symbol(&t, narrow, "data", STT_OBJECT, 2, CODE + 0x500, 9);
    put_symbol(&t, narrow, "", STT_FUNC, 1, CODE + 0x500, 9);
    put_symbol(&t, narrow, "$x.4", STT_NOTYPE, 1, CODE + 0xff0, 0);
    put_symbol(&t, narrow, "unsized", STT_FUNC, 1, CODE + 0xf00, 0);
    add_table(&m, &t, false);
    struct elf_file *f = open_made(&m, &file);
    struct elf_symbols *s = read_symbols(f, NULL);
    assert_at(s, CODE + 0xff, NULL);
    assert_at(s, CODE + 0x100, "first");
    assert_at(s, CODE + 0x11f, "first");
    assert_at(s, CODE + 0x120, NULL);
    assert_at(s, CODE + 0x23f, "outer");
    assert_at(s, CODE + 0x240, "inner");
    assert_at(s, CODE + 0x247, "innermost");
    assert_at(s, CODE + 0x248, "inner");
    assert_at(s, CODE + 0x250, "outer");
    assert_at(s, CODE + 0x2bf, "label");
    assert_at(s, CODE + 0x2cf, "after");
    assert_at(s, CODE + 0x2d0, "outer");
    assert_at(s, CODE + 0x300, NULL);
    assert_at(s, CODE + 0x400, "long2");
    assert_at(s, CODE + 0x40f, "long2");
    assert_at(s, CODE + 0x410, NULL);
    assert_at(s, CODE + 0x500, NULL);
    assert_at(s, CODE + 0xfef, "unsized");
    assert_at(s, CODE + 0xfff, "$x.4"); /* a symbol like others on x86-64 */
    assert_at(s, CODE + 0x1000, NULL);  /* the end of the section */
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&file);
    table_release(&t);
}

static void names_by_address(void **state)
{
    (void)state;
    check_names(false);
    check_names(true);
}

static void mapping_symbols_are_no_functions(void **state)
{
    struct table t = {0};
    struct buf file = {0};
    struct elf_maker m = {.machine = EM_AARCH64};
    (void)state;
    add_code(&m, CODE);
    function(&t, "real", CODE, 0x40);
    put_symbol(&t, false, "$x", STT_NOTYPE, 1, CODE + 0x10, 0);
    put_symbol(&t, false, "$d.1", STT_NOTYPE, 1, CODE + 0x20, 0);
    add_table(&m, &t, false);
    struct elf_file *f = open_made(&m, &file);
    struct elf_symbols *s = read_symbols(f, NULL);
    assert_int_equal(elf_symbols_count(s), 1);
    assert_at(s, CODE + 0x3f, "real");
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&file);
    table_release(&t);
}

static void nearest_counts_from_what_is_below(void **state)
{
    struct table t = {0};
    struct buf file = {0};
    struct elf_maker m = {0};
    struct elf_symbol x;
    (void)state;
    add_code(&m, CODE);
    function(&t, "only", CODE + 0x100, 0x10);
    add_table(&m, &t, true);
    struct elf_file *f = open_made(&m, &file);
    struct elf_symbols *s = read_symbols(f, NULL);
    assert_at(s, CODE + 0x110, NULL);
    assert_true(elf_symbols_nearest(s, CODE + 0x700, &x));
    assert_true(view_equal(x.name, view_of("only")));
    assert_int_equal(x.source, ELF_SYMBOL_DYNSYM);
    assert_int_equal(x.address, CODE + 0x100);
    assert_int_equal(x.size, 0x10);
    assert_false(elf_symbols_nearest(s, CODE + 0xff, &x));
    assert_false(elf_symbols_nearest(s, CODE + CODE_LEN, &x));
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&file);
    table_release(&t);
}

/* The debug file's table goes before the image's; an image that was moved moves its names too. */
static void a_debug_file_of_a_moved_image(void **state)
{
    const uint64_t moved = 0x3300000000;
    struct table own = {0}, of_debug = {0};
    struct buf image_file = {0}, debug_file = {0};
    struct elf_maker image_maker = {0}, debug_maker = {0};
    (void)state;
    add_code(&image_maker, moved + CODE);
    function(&own, "exported", moved + CODE + 0x100, 0x10);
    add_table(&image_maker, &own, true);
    add_code(&debug_maker, CODE);
    debug_maker.sections[0].type = SHT_NOBITS;
    function(&of_debug, "hidden", CODE + 0x200, 0x10);
    function(&of_debug, "exported_alias", CODE + 0x100, 0x10);
    add_table(&debug_maker, &of_debug, false);
    struct elf_file *image = open_made(&image_maker, &image_file);
    struct elf_file *debug = open_made(&debug_maker, &debug_file);
    assert_int_equal(elf_debug_shift(image, debug), moved);
    struct elf_symbols *s = read_symbols(image, debug);
    assert_at(s, moved + CODE + 0x20f, "hidden");
    assert_at(s, moved + CODE + 0x105, "exported_alias");
    assert_at(s, CODE + 0x200, NULL);
    elf_symbols_free(s);
    s = read_symbols(NULL, debug);
    assert_at(s, CODE + 0x200, "hidden");
    elf_symbols_free(s);
    s = read_symbols(image, NULL);
    assert_at(s, moved + CODE + 0x105, "exported");
    elf_symbols_free(s);
    elf_file_close(image);
    elf_file_close(debug);
    buf_release(&image_file);
    buf_release(&debug_file);
    table_release(&own);
    table_release(&of_debug);
}

/* ---- .gnu_debugdata */

static void pack_xz(struct buf *out, const struct buf *in)
{
    size_t at = 0, room = lzma_stream_buffer_bound(in->len);
    uint8_t *p = buf_reserve(out, room);
    assert_non_null(p);
    assert_int_equal(
        lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, in->data, in->len, p, &at, room),
        LZMA_OK);
    out->len += at;
}

static void symbols_packed_in_the_image(void **state)
{
    struct table inside = {0}, own = {0};
    struct buf nested = {0}, packed = {0}, file = {0};
    struct elf_maker inner = {0}, m = {0};
    struct elf_limits small = {.inflated_bytes = 100};
    struct elf_symbols *s;
    struct err e = {0};
    (void)state;
    add_code(&inner, CODE);
    inner.sections[0].type = SHT_NOBITS;
    function(&inside, "packed", CODE + 0x300, 0x10);
    add_table(&inner, &inside, false);
    elf_maker_write(&inner, &nested);
    pack_xz(&packed, &nested);
    add_code(&m, CODE);
    function(&own, "exported", CODE + 0x100, 0x10);
    add_table(&m, &own, true);
    elf_maker_add(&m, ".gnu_debugdata", SHT_PROGBITS, 0, packed.data, packed.len);
    struct elf_file *f = open_made(&m, &file);
    s = read_symbols(f, NULL);
    assert_null(elf_symbols_problem(s));
    assert_at(s, CODE + 0x30f, "packed");
    assert_at(s, CODE + 0x100, "exported");
    elf_symbols_free(s);
    /* What cannot be read costs its own names only, and is said. */
    assert_int_equal(elf_symbols_read(&s, f, NULL, &small, &e), 0);
    assert_non_null(elf_symbols_problem(s));
    assert_non_null(strstr(elf_symbols_problem(s), ".gnu_debugdata: xz data inflates to more"));
    assert_at(s, CODE + 0x30f, NULL);
    assert_at(s, CODE + 0x100, "exported");
    elf_symbols_free(s);
    elf_file_close(f);
    file.data[m.sections[3].offset + packed.len / 2] ^= 1;
    assert_int_equal(elf_file_open_bytes(&f, buf_view(&file), NULL, &e), 0);
    s = read_symbols(f, NULL);
    assert_non_null(strstr(elf_symbols_problem(s), "damaged"));
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&nested);
    buf_release(&packed);
    buf_release(&file);
    table_release(&inside);
    table_release(&own);
}

/* ---- .eh_frame */

#define EH_ADDRESS 0x8000

/* A CIE with augmentation "zR": addresses relative to their own place, 4 bytes, signed. */
static void put_cie(struct buf *b)
{
    static const uint8_t cie[] = {16,  0, 0,    0,    0,  0, 0,    0, 1, 'z',
                                  'R', 0, 0x01, 0x78, 16, 1, 0x1b, 0, 0, 0};
    buf_put(b, cie, sizeof cie);
}

static void put_fde(struct buf *b, uint64_t start, uint32_t len)
{
    buf_u32(b, 16);
    buf_u32(b, (uint32_t)b->len); /* back to the CIE at 0 */
    buf_u32(b, (uint32_t)(start - (EH_ADDRESS + b->len)));
    buf_u32(b, len);
    buf_u32(b, 0);
}

static void functions_without_a_name(void **state)
{
    struct table own = {0};
    struct buf eh = {0}, file = {0};
    struct elf_maker m = {0};
    struct elf_symbol x;
    (void)state;
    put_cie(&eh);
    put_fde(&eh, CODE + 0x500, 0x30);
    put_fde(&eh, CODE + 0x100, 0x40);
    put_fde(&eh, CODE + 0x140, 0x10);
    buf_u32(&eh, 0);
    put_fde(&eh, CODE + 0x800, 0x10); /* behind the end */
    add_code(&m, CODE);
    function(&own, "unsized", CODE + 0x100, 0);
    add_table(&m, &own, true);
    size_t i = elf_maker_add(&m, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, eh.data, eh.len);
    m.sections[i - 1].address = EH_ADDRESS;
    struct elf_file *f = open_made(&m, &file);
    struct elf_symbols *s = read_symbols(f, NULL);
    assert_at(s, CODE + 0x13f, "unsized");
    assert_true(elf_symbols_bounds(s, CODE + 0x13f, &x));
    assert_int_equal(x.address, CODE + 0x100);
    assert_int_equal(x.size, 0x40);
    assert_true(elf_symbols_bounds(s, CODE + 0x14f, &x));
    assert_int_equal(x.size, 0x10);
    assert_false(elf_symbols_bounds(s, CODE + 0x150, &x));
    assert_true(elf_symbols_find(s, CODE + 0x14f, &x)); /* not what has no size before it */
    assert_int_equal(x.source, ELF_SYMBOL_EH_FRAME);
    assert_int_equal(x.name.len, 0);
    assert_int_equal(x.address, CODE + 0x140);
    assert_int_equal(x.size, 0x10);
    assert_true(elf_symbols_find(s, CODE + 0x52f, &x));
    assert_int_equal(x.address, CODE + 0x500);
    assert_at(s, CODE + 0x150, NULL);
    assert_at(s, CODE + 0x800, NULL);
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&eh);
    buf_release(&file);
    table_release(&own);
}

/* ---- real ones */

static int note_base(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    *(uint64_t *)ctx = info->dlpi_addr;
    return 1; /* the program itself comes first */
}

/* This program's own functions, by symbols and by unwind entries. */
static void functions_of_this_program(void **state)
{
    uint64_t base = 0;
    struct elf_file *f;
    struct eh_ranges ranges;
    struct elf_symbol x;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(elf_file_open(&f, fd, NULL, NULL), 0);
    close(fd);
    dl_iterate_phdr(note_base, &base);
    struct elf_symbols *s = read_symbols(f, NULL);
    uint64_t at = (uint64_t)(uintptr_t)functions_of_this_program - base;
    assert_at(s, at + 3, "functions_of_this_program");
    assert_true(elf_symbols_find(s, at, &x));
    assert_int_equal(x.address, at);
    assert_int_equal(eh_ranges_read(&ranges, f, NULL), 0);
    const struct eh_range *range = eh_ranges_find(&ranges, at + 1);
    assert_non_null(range);
    assert_int_equal(range->start, at);
    assert_int_equal(range->end, at + x.size);
    eh_ranges_release(&ranges);
    elf_symbols_free(s);
    elf_file_close(f);
}

/* Each byte changed: tables that lie cost names, nothing else. */
static void damaged_tables(void **state)
{
    struct table t = {0};
    struct buf eh = {0}, file = {0};
    struct elf_maker m = {0};
    (void)state;
    put_cie(&eh);
    put_fde(&eh, CODE + 0x500, 0x30);
    add_code(&m, CODE);
    m.sections[0].len = 64;
    function(&t, "a", CODE, 0x40);
    function(&t, "b", CODE + 0x40, 0);
    add_table(&m, &t, true);
    size_t i = elf_maker_add(&m, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, eh.data, eh.len);
    m.sections[i - 1].address = EH_ADDRESS;
    elf_maker_write(&m, &file);
    for (size_t at = 0; at < 8 * file.len; at++) {
        struct elf_file *f;
        struct elf_symbols *s;
        struct elf_symbol x;
        file.data[at / 8] ^= (uint8_t)(1u << at % 8);
        if (elf_file_open_bytes(&f, buf_view(&file), NULL, NULL) == 0) {
            assert_int_equal(elf_symbols_read(&s, f, NULL, NULL, NULL), 0);
            for (uint64_t a = CODE - 1; a < CODE + 0x600; a += 0x2f) {
                if (elf_symbols_find(s, a, &x) && x.source != ELF_SYMBOL_EH_FRAME)
                    assert_true(x.name.len > 0 && x.address <= a);
            }
            elf_symbols_free(s);
            elf_file_close(f);
        }
        file.data[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    buf_release(&eh);
    buf_release(&file);
    table_release(&t);
}

/* ---- seeds */

#define SEEDS "test/fuzz/seeds/fuzz_elf"

/*
 * The fuzzer's seeds are files as above; with TIDEMARK_WRITE_SEEDS=1 in the environment they are
 * written anew, else they must give the names that they were made with.
 */
static void seed(const char *name, struct elf_maker *m, const char *function_name)
{
    struct buf file = {0};
    char path[128];
    struct elf_file *f;
    struct err e = {0};
    snprintf(path, sizeof path, SEEDS "/%s", name);
    elf_maker_write(m, &file);
    if (getenv("TIDEMARK_WRITE_SEEDS")) {
        mkdir(SEEDS, 0777);
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(file.data, 1, file.len, out), file.len);
        assert_int_equal(fclose(out), 0);
    }
    buf_release(&file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_file_open(&f, fd, NULL, &e), 0);
    close(fd);
    struct elf_symbols *s = read_symbols(f, NULL);
    assert_null(elf_symbols_problem(s));
    assert_at(s, CODE + 0x100, function_name);
    for (size_t i = 0; i < elf_file_section_count(f); i++) {
        struct view bytes;
        if (elf_file_section_bytes(f, i, &bytes, &e) != 0)
            fail_msg("%s", e.text);
    }
    elf_symbols_free(s);
    elf_file_close(f);
}

static void the_fuzzers_seeds(void **state)
{
    /* "abcabcabc" eight times, packed in the three ways that there are. */
    static const uint8_t zlib[] = {0x01, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00, 0x01,
                                   0x00, 0x00, 0x00, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x4e,
                                   0xa4, 0x06, 0x02, 0x00, 0xee, 0x4d, 0x1b, 0x91};
    static const uint8_t zstd[] = {0x02, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00, 0x01, 0x00,
                                   0x00, 0x00, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x48, 0x4d, 0x00,
                                   0x00, 0x18, 0x61, 0x62, 0x63, 0x01, 0x00, 0x22, 0xea, 0x86};
    static const uint8_t gnu[] = {0x5a, 0x4c, 0x49, 0x42, 0x00, 0x00, 0x00, 0x00, 0x00,
                                  0x00, 0x00, 0x48, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x4e,
                                  0xa4, 0x06, 0x02, 0x00, 0xee, 0x4d, 0x1b, 0x91};
    struct table t = {0}, narrow = {0};
    struct buf eh = {0}, nested = {0}, packed = {0};
    struct elf_maker inner = {0}, m = {0}, m32 = {.narrow = true, .machine = EM_AARCH64};
    (void)state;
    put_cie(&eh);
    put_fde(&eh, CODE + 0x500, 0x30);
    add_code(&inner, CODE);
    inner.sections[0].type = SHT_NOBITS;
    function(&t, "packed", CODE + 0x100, 0x10);
    function(&t, "unsized", CODE + 0x200, 0);
    add_table(&inner, &t, false);
    elf_maker_write(&inner, &nested);
    pack_xz(&packed, &nested);
    add_code(&m, CODE);
    m.sections[0].len = 0x80;
    m.segments[0].size = 0x80;
    elf_maker_add(&m, ".gnu_debugdata", SHT_PROGBITS, 0, packed.data, packed.len);
    size_t i = elf_maker_add(&m, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, eh.data, eh.len);
    m.sections[i - 1].address = EH_ADDRESS;
    elf_maker_add(&m, ".gnu_debuglink", SHT_PROGBITS, 0, "a.debug\0abcd", 12);
    elf_maker_add(&m, ".gnu_debugaltlink", SHT_PROGBITS, 0, "b.dwz\0abcd", 10);
    seed("packed", &m, "packed");
    add_code(&m32, CODE);
    m32.sections[0].len = 0x200;
    put_symbol(&narrow, true, "narrow", STT_FUNC, 1, CODE + 0x100, 0x10);
    put_symbol(&narrow, true, "longer", STT_FUNC, 1, CODE + 0x80, 0x180);
    add_table(&m32, &narrow, false);
    elf_maker_add(&m32, ".debug_str", SHT_PROGBITS, SHF_COMPRESSED, zlib, sizeof zlib);
    elf_maker_add(&m32, ".debug_line", SHT_PROGBITS, SHF_COMPRESSED, zstd, sizeof zstd);
    elf_maker_add(&m32, ".zdebug_info", SHT_PROGBITS, 0, gnu, sizeof gnu);
    seed("narrow", &m32, "narrow");
    buf_release(&eh);
    buf_release(&nested);
    buf_release(&packed);
    table_release(&t);
    table_release(&narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_by_address),
        cmocka_unit_test(mapping_symbols_are_no_functions),
        cmocka_unit_test(nearest_counts_from_what_is_below),
        cmocka_unit_test(a_debug_file_of_a_moved_image),
        cmocka_unit_test(symbols_packed_in_the_image),
        cmocka_unit_test(functions_without_a_name),
        cmocka_unit_test(functions_of_this_program),
        cmocka_unit_test(damaged_tables),
        cmocka_unit_test(the_fuzzers_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
