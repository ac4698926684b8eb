/* ELF files: headers, sections, compressed ones, links to debug files, addresses; and damaged ones.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "elf_maker.h"
#include "symbols/elf/debug_link.h"
#include "symbols/elf/elf_file.h"

#define TEXT_LEN 5000

/* Compressible, and different everywhere. */
static void fill(char *text)
{
    for (size_t i = 0; i < TEXT_LEN; i++)
        text[i] = (char)('a' + i / 100 % 26);
}

static struct elf_file *open_made(struct elf_maker *m, struct buf *b)
{
    struct elf_file *f;
    struct err e = {0};
    elf_maker_write(m, b);
    assert_false(b->failed);
    if (elf_file_open_bytes(&f, buf_view(b), NULL, &e) != 0)
        fail_msg("%s", e.text);
    return f;
}

static void assert_section(struct elf_file *f, const char *name, const void *want, size_t len)
{
    struct view have;
    struct err e = {0};
    if (elf_file_section(f, name, &have, &e) != 0)
        fail_msg("%s", e.text);
    assert_non_null(have.p);
    assert_int_equal(have.len, len);
    assert_memory_equal(have.p, want, len);
}

static void assert_refused(struct elf_file *f, const char *name, const char *cause)
{
    struct view have;
    struct err e = {0};
    assert_int_equal(elf_file_section(f, name, &have, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_null(have.p);
    if (!strstr(e.text, cause) || !strstr(e.text, name))
        fail_msg("'%s' does not say '%s' of %s", e.text, cause, name);
}

/* ---- packing */

static void put_chdr(struct buf *b, bool narrow, uint32_t type, uint64_t size)
{
    buf_u32(b, type);
    if (!narrow)
        buf_u32(b, 0);
    if (narrow) {
        buf_u32(b, (uint32_t)size);
        buf_u32(b, 1);
    } else {
        buf_u64(b, size);
        buf_u64(b, 1);
    }
}

static void put_zlib(struct buf *b, const char *text, size_t len)
{
    uLongf room = compressBound(len);
    uint8_t *p = buf_reserve(b, room);
    assert_non_null(p);
    assert_int_equal(compress(p, &room, (const Bytef *)text, len), Z_OK);
    b->len += room;
}

static void put_zstd(struct buf *b, const char *text, size_t len)
{
    size_t room = ZSTD_compressBound(len);
    uint8_t *p = buf_reserve(b, room);
    assert_non_null(p);
    size_t got = ZSTD_compress(p, room, text, len, 3);
    assert_false(ZSTD_isError(got));
    b->len += got;
}

static void check_sections(bool narrow)
{
    char text[TEXT_LEN];
    struct buf zlib = {0}, zstd = {0}, gnu = {0}, file = {0};
    struct elf_maker m = {.narrow = narrow, .machine = EM_AARCH64};
    struct view none;
    fill(text);
    put_chdr(&zlib, narrow, 1, TEXT_LEN);
    put_zlib(&zlib, text, TEXT_LEN);
    put_chdr(&zstd, narrow, 2, TEXT_LEN);
    put_zstd(&zstd, text, TEXT_LEN);
    buf_put(&gnu, "ZLIB\0\0\0\0\0\0", 10);
    buf_u8(&gnu, TEXT_LEN >> 8);
    buf_u8(&gnu, TEXT_LEN & 255);
    put_zlib(&gnu, text, TEXT_LEN);
    elf_maker_add(&m, ".debug_line", SHT_PROGBITS, 0, text, TEXT_LEN);
    elf_maker_add(&m, ".debug_info", SHT_PROGBITS, SHF_COMPRESSED, zlib.data, zlib.len);
    elf_maker_add(&m, ".debug_str", SHT_PROGBITS, SHF_COMPRESSED, zstd.data, zstd.len);
    elf_maker_add(&m, ".zdebug_abbrev", SHT_PROGBITS, 0, gnu.data, gnu.len);
    elf_maker_add(&m, ".zdebug_types", SHT_PROGBITS, 0, "short", 5);
    elf_maker_add(&m, ".bss", SHT_NOBITS, 0, NULL, 1 << 30);
    struct elf_file *f = open_made(&m, &file);
    assert_int_equal(elf_file_machine(f), EM_AARCH64);
    assert_int_equal(elf_file_is_64(f), !narrow);
    assert_true(elf_file_has_debug_info(f));
    for (int again = 0; again < 2; again++) {
        assert_section(f, ".debug_line", text, TEXT_LEN);
        assert_section(f, ".debug_info", text, TEXT_LEN);
        assert_section(f, ".debug_str", text, TEXT_LEN);
        assert_section(f, ".debug_abbrev", text, TEXT_LEN);
        assert_section(f, ".debug_types", "short", 5);
    }
    assert_int_equal(elf_file_section(f, ".bss", &none, NULL), 0);
    assert_null(none.p);
    assert_int_equal(elf_file_section(f, ".debug_lin", &none, NULL), 0);
    assert_null(none.p);
    assert_false(elf_file_has_section(f, ".bss"));
    elf_file_close(f);
    buf_release(&zlib);
    buf_release(&zstd);
    buf_release(&gnu);
    buf_release(&file);
}

static void sections_of_both_classes(void **state)
{
    (void)state;
    check_sections(false);
    check_sections(true);
}

static void packed_sections_that_lie(void **state)
{
    char text[TEXT_LEN];
    struct buf more = {0}, less = {0}, huge = {0}, cut = {0}, odd = {0}, file = {0};
    struct elf_maker m = {0};
    (void)state;
    fill(text);
    put_chdr(&more, false, 1, TEXT_LEN + 1);
    put_zlib(&more, text, TEXT_LEN);
    put_chdr(&less, false, 2, TEXT_LEN - 1);
    put_zstd(&less, text, TEXT_LEN);
    put_chdr(&huge, false, 2, (uint64_t)1 << 62);
    put_zstd(&huge, text, TEXT_LEN);
    put_chdr(&cut, false, 1, TEXT_LEN);
    put_zlib(&cut, text, TEXT_LEN);
    put_chdr(&odd, false, 77, TEXT_LEN);
    elf_maker_add(&m, ".debug_more", SHT_PROGBITS, SHF_COMPRESSED, more.data, more.len);
    elf_maker_add(&m, ".debug_less", SHT_PROGBITS, SHF_COMPRESSED, less.data, less.len);
    elf_maker_add(&m, ".debug_huge", SHT_PROGBITS, SHF_COMPRESSED, huge.data, huge.len);
    elf_maker_add(&m, ".debug_cut", SHT_PROGBITS, SHF_COMPRESSED, cut.data, cut.len - 9);
    elf_maker_add(&m, ".debug_odd", SHT_PROGBITS, SHF_COMPRESSED, odd.data, odd.len);
    elf_maker_add(&m, ".debug_tiny", SHT_PROGBITS, SHF_COMPRESSED, "abc", 3);
    struct elf_file *f = open_made(&m, &file);
    assert_refused(f, ".debug_more", "5000 bytes, 5001 are stated");
    assert_refused(f, ".debug_less", "zstd");
    assert_refused(f, ".debug_huge", "the limit is");
    assert_refused(f, ".debug_cut", "cut short");
    assert_refused(f, ".debug_odd", "unknown method 77");
    assert_refused(f, ".debug_tiny", "cut short");
    elf_file_close(f);
    buf_release(&more);
    buf_release(&less);
    buf_release(&huge);
    buf_release(&cut);
    buf_release(&odd);
    buf_release(&file);
}

static void the_limit_is_for_all_sections_together(void **state)
{
    char text[TEXT_LEN];
    struct buf zlib = {0}, file = {0};
    struct elf_maker m = {0};
    struct elf_limits limits = {.inflated_bytes = 2 * TEXT_LEN};
    struct elf_file *f;
    (void)state;
    fill(text);
    put_chdr(&zlib, false, 1, TEXT_LEN);
    put_zlib(&zlib, text, TEXT_LEN);
    elf_maker_add(&m, ".debug_a", SHT_PROGBITS, SHF_COMPRESSED, zlib.data, zlib.len);
    elf_maker_add(&m, ".debug_b", SHT_PROGBITS, SHF_COMPRESSED, zlib.data, zlib.len);
    elf_maker_add(&m, ".debug_c", SHT_PROGBITS, SHF_COMPRESSED, zlib.data, zlib.len);
    elf_maker_write(&m, &file);
    assert_int_equal(elf_file_open_bytes(&f, buf_view(&file), &limits, NULL), 0);
    assert_section(f, ".debug_a", text, TEXT_LEN);
    assert_section(f, ".debug_b", text, TEXT_LEN);
    assert_section(f, ".debug_a", text, TEXT_LEN);
    assert_refused(f, ".debug_c", "the limit is 10000 for one file");
    elf_file_close(f);
    buf_release(&zlib);
    buf_release(&file);
}

/* ---- what a file says about itself */

static const char note[] = "\4\0\0\0\3\0\0\0\3\0\0\0GNU\0\xab\xcd\xef"; /* and the NUL pads */

static void build_ids_and_links(void **state)
{
    static const char link[] = "a.debug\0\x78\x56\x34\x12";
    static const char odd[] = "prog.debug\0\0\x01\x02\x03\x04"; /* 11 bytes, padded to 12 */
    static const char alt[] = "../x.dwz\0\x01\x02\x03\x04";
    struct buf file = {0}, file2 = {0};
    struct elf_maker m = {0}, m2 = {0};
    struct debug_link l;
    (void)state;
    elf_maker_add(&m, ".note.gnu.build-id", SHT_NOTE, 0, note, sizeof note - 1 + 1);
    elf_maker_add(&m, ".gnu_debuglink", SHT_PROGBITS, 0, link, sizeof link - 1);
    elf_maker_add(&m, ".gnu_debugaltlink", SHT_PROGBITS, 0, alt, sizeof alt - 1);
    struct elf_file *f = open_made(&m, &file);
    assert_int_equal(elf_file_build_id(f)->len, 3);
    assert_memory_equal(elf_file_build_id(f)->bytes, "\xab\xcd\xef", 3);
    assert_true(debug_link_read(f, &l));
    assert_true(view_equal(l.name, view_of("a.debug")));
    assert_int_equal(l.crc, 0x12345678);
    assert_true(debug_altlink_read(f, &l));
    assert_true(view_equal(l.name, view_of("../x.dwz")));
    assert_int_equal(l.build_id.len, 4);
    assert_memory_equal(l.build_id.bytes, "\1\2\3\4", 4);
    elf_file_close(f);
    elf_maker_add(&m2, ".gnu_debuglink", SHT_PROGBITS, 0, odd, sizeof odd - 1);
    elf_maker_add(&m2, ".gnu_debugaltlink", SHT_PROGBITS, 0, "no end", 6);
    f = open_made(&m2, &file2);
    assert_int_equal(elf_file_build_id(f)->len, 0);
    assert_true(debug_link_read(f, &l));
    assert_int_equal(l.crc, 0x04030201);
    assert_false(debug_altlink_read(f, &l));
    elf_file_close(f);
    buf_release(&file);
    buf_release(&file2);
    assert_int_equal(debug_link_crc(view_of("123456789")),
                     0xcbf43926); /* the check value of CRC-32 */
}

static void a_build_id_in_a_segment_is_found(void **state)
{
    struct buf file = {0};
    struct elf_maker m = {0};
    (void)state;
    elf_maker_add(&m, ".data", SHT_PROGBITS, 0, note, sizeof note);
    m.segments[m.segment_count].type = PT_NOTE;
    m.segments[m.segment_count++].size = sizeof note;
    struct elf_file *f = open_made(&m, &file);
    assert_int_equal(elf_file_build_id(f)->len, 3);
    elf_file_close(f);
    buf_release(&file);
}

static void addresses_and_offsets(void **state)
{
    char text[200] = {0};
    struct buf file = {0};
    struct elf_maker m = {0};
    uint64_t x;
    struct view v;
    (void)state;
    elf_maker_add(&m, ".rodata", SHT_PROGBITS, 0, text, sizeof text);
    elf_maker_add(&m, ".text", SHT_PROGBITS, 0, text, sizeof text);
    m.segment_count = 2;
    m.segments[0].type = m.segments[1].type = PT_LOAD;
    m.segments[0].flags = PF_R;
    m.segments[0].address = 0x10000;
    m.segments[0].size = 300; /* reaches over the text: the executable one goes first */
    m.segments[1].flags = PF_R | PF_X;
    m.segments[1].first = 1;
    m.segments[1].address = 0x20000;
    m.segments[1].size = sizeof text;
    struct elf_file *f = open_made(&m, &file);
    uint64_t rodata = m.sections[0].offset, code = m.sections[1].offset;
    assert_int_equal(elf_file_base(f), 0x10000);
    assert_int_equal(elf_file_segment_count(f), 2);
    assert_true(elf_file_address_of_offset(f, rodata + 5, &x));
    assert_int_equal(x, 0x10005);
    assert_true(elf_file_address_of_offset(f, code + 5, &x));
    assert_int_equal(x, 0x20005);
    assert_false(elf_file_address_of_offset(f, code + sizeof text, &x));
    elf_file_at_address(f, 0x200c0, &v);
    assert_int_equal(v.len, 8);
    assert_ptr_equal(v.p, (const char *)file.data + code + 192);
    elf_file_close(f);
    buf_release(&file);
}

static void keys_tell_files_apart(void **state)
{
    char text[48] = {0};
    struct elf_key first, key;
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct buf file = {0};
        struct elf_maker m = {0};
        text[30] = i == 1;
        elf_maker_add(&m, i == 2 ? ".symtaB" : ".symtab", SHT_SYMTAB, 0, text, sizeof text);
        struct elf_file *f = open_made(&m, &file);
        elf_file_key(f, i == 0 ? &first : &key);
        if (i == 3)
            assert_memory_equal(&key, &first, sizeof key);
        else if (i > 0)
            assert_memory_not_equal(&key, &first, sizeof key);
        elf_file_close(f);
        buf_release(&file);
    }
}

/* Where nothing but a line of source changed, only the build id tells. */
static void keys_follow_build_ids(void **state)
{
    struct elf_key keys[2];
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char id[] = "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd";
        struct buf file = {0};
        struct elf_maker m = {0};
        id[16] = (char)('a' + i);
        elf_maker_add(&m, ".note.gnu.build-id", SHT_NOTE, 0, id, 20);
        struct elf_file *f = open_made(&m, &file);
        assert_int_equal(elf_file_build_id(f)->len, 4);
        elf_file_key(f, &keys[i]);
        elf_file_close(f);
        buf_release(&file);
    }
    assert_memory_not_equal(&keys[0], &keys[1], sizeof keys[0]);
}

/* ---- files that are none, or damaged */

static void assert_no_elf(const void *bytes, size_t len, const char *cause)
{
    struct elf_file *f;
    struct err e = {0};
    assert_int_equal(elf_file_open_bytes(&f, (struct view){bytes, len}, NULL, &e), -1);
    assert_null(f);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, cause))
        fail_msg("'%s' does not say '%s'", e.text, cause);
}

static void what_is_no_elf_file(void **state)
{
    struct buf file = {0};
    struct elf_maker m = {0};
    struct elf_file *f;
    struct err e = {0};
    (void)state;
    elf_maker_add(&m, ".text", SHT_PROGBITS, 0, "code", 4);
    elf_maker_write(&m, &file);
    assert_no_elf("", 0, "no ELF file");
    assert_no_elf("!<arch>\n/               ", 24, "no ELF file");
    file.data[EI_DATA] = ELFDATA2MSB;
    assert_no_elf(file.data, file.len, "big-endian");
    file.data[EI_DATA] = ELFDATA2LSB;
    file.data[EI_CLASS] = 9;
    assert_no_elf(file.data, file.len, "class 9");
    file.data[EI_CLASS] = ELFCLASS64;
    assert_no_elf(file.data, 60, "cut short");
    assert_no_elf(file.data, file.len - 1, "beyond the end");
    store_u16(file.data + 58, 10); /* e_shentsize */
    assert_no_elf(file.data, file.len, "too small");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(elf_file_open(&f, fd, NULL, &e), -1);
    assert_non_null(strstr(e.text, "not a regular file"));
    close(fd);
    buf_release(&file);
}

/* Each byte of a file changed, and each length of it: an error or an answer, never more. */
static void damaged_files(void **state)
{
    struct buf file = {0};
    struct elf_maker m = {0};
    (void)state;
    elf_maker_add(&m, ".gnu_debuglink", SHT_PROGBITS, 0, "a\0\0\0abcd", 8);
    elf_maker_add(&m, ".debug_info", SHT_PROGBITS, SHF_COMPRESSED, "abcdefghijklmnopqrstuvwxyz",
                  26);
    m.segments[m.segment_count++].type = PT_LOAD;
    elf_maker_write(&m, &file);
    for (size_t i = 0; i < 2 * file.len; i++) {
        struct view bytes = {(const char *)file.data, i < file.len ? file.len : i - file.len};
        struct elf_file *f;
        struct debug_link l;
        uint8_t before = i < file.len ? file.data[i] : 0;
        if (i < file.len)
            file.data[i] ^= 0xff;
        if (elf_file_open_bytes(&f, bytes, NULL, NULL) == 0) {
            for (size_t s = 0; s < elf_file_section_count(f); s++) {
                struct view v;
                if (elf_file_section_bytes(f, s, &v, NULL) == 0 && v.p)
                    assert_true(v.len <= bytes.len);
            }
            if (debug_link_read(f, &l))
                assert_true(l.name.len > 0);
            elf_file_close(f);
        }
        if (i < file.len)
            file.data[i] = before;
    }
    buf_release(&file);
}

/* This program itself: its own build id, when it has one, is what the other reader says. */
static void a_real_file(void **state)
{
    struct elf_file *f;
    struct err e = {0};
    struct build_id id;
    struct view text;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(elf_file_open(&f, fd, NULL, &e), 0);
    bool has = build_id_read(fd, &id);
    close(fd);
    assert_int_equal(elf_file_build_id(f)->len, has ? id.len : 0);
    assert_true(build_id_equal(elf_file_build_id(f), &id));
    assert_int_equal(elf_file_section(f, ".text", &text, &e), 0);
    assert_true(text.len > 1000);
    elf_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_of_both_classes),
        cmocka_unit_test(packed_sections_that_lie),
        cmocka_unit_test(the_limit_is_for_all_sections_together),
        cmocka_unit_test(build_ids_and_links),
        cmocka_unit_test(a_build_id_in_a_segment_is_found),
        cmocka_unit_test(addresses_and_offsets),
        cmocka_unit_test(keys_tell_files_apart),
        cmocka_unit_test(keys_follow_build_ids),
        cmocka_unit_test(what_is_no_elf_file),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(a_real_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
