/* PE images and PDB files of Windows: what they hold, and damaged ones. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/elf_symbols.h"
#include "symbols/index/index.h"
#include "symbols/pdb/msvc_names.h"
#include "symbols/pdb/inline_site.h"
#include "symbols/pdb/pdb_file.h"

#define IMAGE "fixtures/windows/leak.exe"
#define PDB "fixtures/windows/leak.pdb"
#define EXPORTS "fixtures/windows/exports.dll" /* without a PDB file */
#define SCATTERED                                                                                  \
    "test/fuzz/seeds/fuzz_pdb/scattered" /* the same streams in shuffled small blocks */

#define CALL_IN_INSERT 0x113d /* see fixtures/windows/calls.txt */
#define MSF_BLOCK_SIZE 32     /* offsets in the file's first block */
#define MSF_DIRECTORY_SIZE 44
#define MSF_DIRECTORY_LIST 52

static struct buf read_all(const char *path)
{
    struct buf b = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (ssize_t n = 1; n > 0;) {
        uint8_t *room = buf_reserve(&b, 65536);
        assert_non_null(room);
        n = read(fd, room, 65536);
        assert_true(n >= 0);
        b.len += (size_t)n;
    }
    close(fd);
    return b;
}

static struct elf_file *open_bytes(const struct buf *b)
{
    struct elf_file *f;
    struct err e = {0};
    if (elf_file_open_bytes(&f, (struct view){(const char *)b->data, b->len}, NULL, &e) != 0)
        fail_msg("%s", e.text);
    return f;
}

static struct symbol_index *index_of(struct elf_file *f)
{
    struct symbol_index *x;
    struct err e = {0};
    const struct index_options o = {.threads = 1};
    if (symbol_index_build(&x, f, NULL, &o, &e) != 0)
        fail_msg("%s", e.text);
    return x;
}

static void assert_text(struct view have, const char *wanted)
{
    if (!view_equal(have, view_of(wanted)))
        fail_msg("\"%.*s\", not \"%s\"", (int)have.len, have.p, wanted);
}

/* ---- what is there */

static void test_image(void **state)
{
    struct buf b = read_all(IMAGE);
    struct elf_file *f = open_bytes(&b);
    (void)state;
    assert_false(elf_file_is_elf(f));
    assert_null(elf_file_pdb(f));
    assert_text(elf_file_pdb_name(f), "C:\\shop\\leak.pdb");
    assert_int_equal(elf_file_machine(f), 62); /* EM_X86_64 */
    assert_int_equal(elf_file_base(f), 0);
    assert_int_equal(elf_file_build_id(f)->len, PDB_ID_SIZE);
    assert_int_equal(elf_file_build_id(f)->bytes[PDB_ID_SIZE - 1], 1);
    struct view code;
    elf_file_at_address(f, 0x1000, &code);
    assert_true(code.len > 16 && memcmp(code.p, "\x48\x8b\x05", 3) == 0);
    assert_true(elf_file_has_section(f, ".text"));
    elf_file_close(f);
    buf_release(&b);
}

static void test_ids_agree(void **state)
{
    struct buf image = read_all(IMAGE), pdb = read_all(PDB);
    struct elf_file *f = open_bytes(&image), *p = open_bytes(&pdb);
    (void)state;
    assert_non_null(elf_file_pdb(p));
    assert_true(build_id_equal(elf_file_build_id(f), elf_file_build_id(p)));
    assert_true(elf_file_has_debug_info(p));
    assert_int_equal(elf_debug_shift(f, p), 0);
    assert_int_equal(pdb_file_module_count(elf_file_pdb(p)), 3);
    elf_file_close(f);
    elf_file_close(p);
    buf_release(&image);
    buf_release(&pdb);
}

static void check_frames(const char *path)
{
    struct symbol_frame frames[8];
    struct buf b = read_all(path);
    struct elf_file *f = open_bytes(&b);
    struct symbol_index *x = index_of(f);
    struct index_facts facts;
    size_t n;
    symbol_index_facts(x, &facts);
    assert_int_equal(facts.units_incomplete, 0);
    assert_true(symbol_index_lookup(x, CALL_IN_INSERT, frames, 8, &n));
    assert_int_equal(n, 2);
    assert_text(frames[0].function, "store::Map<unsigned int,shop::Picture *>::insert");
    assert_text(frames[0].file, "C:\\shop\\map.h");
    assert_int_equal(frames[0].line, 30);
    assert_true(frames[0].inlined);
    assert_text(frames[1].function, "shop::Cache::remember");
    assert_text(frames[1].file, "C:\\shop\\leak.cpp");
    assert_int_equal(frames[1].line, 32);
    assert_int_equal(frames[1].start, 0x10f0);
    assert_false(frames[1].inlined);
    /* Padding behind a function belongs to none. */
    assert_false(symbol_index_lookup(x, 0x10e9, frames, 8, &n));
    symbol_index_free(x);
    elf_file_close(f);
    buf_release(&b);
}

static void test_frames(void **state)
{
    (void)state;
    check_frames(PDB);
    check_frames(SCATTERED);
}

static void test_publics(void **state)
{
    struct buf image = read_all(IMAGE), pdb = read_all(PDB);
    struct elf_file *f = open_bytes(&image), *p = open_bytes(&pdb);
    struct elf_symbols *s;
    struct elf_symbol symbol;
    (void)state;
    assert_int_equal(elf_symbols_read(&s, f, p, NULL, NULL), 0);
    assert_true(elf_symbols_find(s, 0x1020, &symbol));
    assert_text(symbol.name, "?day@shop@@YA_KI@Z");
    /* .pdata bounds it: padding is not part of it. */
    assert_int_equal(symbol.size, 0x45);
    assert_false(elf_symbols_find(s, 0x1020 + 0x46, &symbol));
    elf_symbols_free(s);
    elf_file_close(f);
    elf_file_close(p);
    buf_release(&image);
    buf_release(&pdb);
}

/* ---- annotations of inlined calls */

static void check_steps(const char *bytes, size_t n, const struct inline_step *wanted, size_t count,
                        bool damaged)
{
    struct inline_site site = {.c = cursor_over(bytes, n), .file = UINT32_MAX};
    struct inline_step step;
    for (size_t i = 0; i < count; i++) {
        assert_true(inline_site_next(&site, &step));
        assert_int_equal(step.end, wanted[i].end);
        assert_int_equal(step.low, wanted[i].low);
        assert_int_equal(step.offset, wanted[i].offset);
        assert_int_equal(step.line, wanted[i].line);
        assert_int_equal(step.file, wanted[i].file);
    }
    assert_false(inline_site_next(&site, &step));
    assert_int_equal(site.c.short_read, damaged);
}

#define CHECK_STEPS(BYTES, DAMAGED, ...)                                                           \
    check_steps(BYTES, sizeof(BYTES) - 1, (const struct inline_step[]){__VA_ARGS__},               \
                sizeof((const struct inline_step[]){__VA_ARGS__}) / sizeof(struct inline_step),    \
                DAMAGED)

static void test_exports(void **state)
{
    struct buf image = read_all(EXPORTS);
    struct elf_file *f = open_bytes(&image);
    struct elf_symbols *s;
    struct elf_symbol symbol;
    (void)state;
    assert_int_equal(elf_symbols_read(&s, f, NULL, NULL, NULL), 0);
    assert_true(elf_symbols_find(s, 0x1010, &symbol));
    assert_text(symbol.name, "plain");
    assert_int_equal(symbol.address, 0x1000);
    assert_int_equal(symbol.size, 0x11);
    assert_int_equal(symbol.source, ELF_SYMBOL_DYNSYM);
    assert_true(elf_symbols_find(s, 0x1045, &symbol));
    assert_text(symbol.name, "?insert@?$Map@_J@store@@QEAA_J_J@Z");
    /* Data, and the name of another image's function. */
    assert_false(elf_symbols_find(s, 0x3000, &symbol));
    assert_false(elf_symbols_find(s, 0x2123, &symbol));
    elf_symbols_free(s);
    elf_file_close(f);
    buf_release(&image);
}

static void test_annotations(void **state)
{
    const uint32_t own = UINT32_MAX;
    (void)state;
    /* As llvm-pdbutil shows them in the comment of each. */
    CHECK_STEPS("\x03\x55\x0b\x28\x06\x02\x03\x1d\x04\x04\0", false, {false, 0x55, 0x55, 0, own},
                {false, 0x55, 0x5d, 1, own}, {false, 0x55, 0x7a, 2, own},
                {true, 0x55, 0x7e, 2, own});
    /* Length and offset in one, file, line backwards, two and four bytes. */
    CHECK_STEPS("\x05\x18\x06\x03\x0c\x05\x10\x03\x81\x00\x04\xc0\x01\x00\x00", false,
                {false, 0x10, 0x10, -1, 0x18}, {true, 0x10, 0x15, -1, 0x18},
                {false, 0x110, 0x110, -1, 0x18}, {true, 0x110, 0x10110, -1, 0x18});
    /* Microsoft's compiler: an offset behind a length in one counts from where the piece began. */
    CHECK_STEPS("\x0c\x07\x0a\x0c\x03\x0a\x06\x02\x0c\x09\x05\0", false,
                {false, 0x0a, 0x0a, 0, own}, {true, 0x0a, 0x11, 0, own},
                {false, 0x14, 0x14, 0, own}, {true, 0x14, 0x17, 0, own},
                {false, 0x19, 0x19, 1, own}, {true, 0x19, 0x22, 1, own});
    CHECK_STEPS("\x03\x10\x03", true, {false, 0x10, 0x10, 0, own});     /* cut short */
    CHECK_STEPS("\x03\x10\x3f\x01", true, {false, 0x10, 0x10, 0, own}); /* unknown */
    CHECK_STEPS("\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff"
                "\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff\x03\xdf\xff\xff\xff"
                "\x03\xdf\xff\xff\xff",
                true, {false, 0x1fffffff, 0x1fffffff, 0, own},
                {false, 0x1fffffff, 0x3ffffffe, 0, own}, {false, 0x1fffffff, 0x5ffffffd, 0, own},
                {false, 0x1fffffff, 0x7ffffffc, 0, own}, {false, 0x1fffffff, 0x9ffffffb, 0, own},
                {false, 0x1fffffff, 0xbffffffa, 0, own}, {false, 0x1fffffff, 0xdffffff9, 0, own},
                {false, 0x1fffffff, 0xfffffff8, 0, own});
}

/* ---- damage */

static void refuses(const struct buf *b, size_t len, const char *cause)
{
    struct elf_file *f;
    struct err e = {0};
    assert_int_equal(elf_file_open_bytes(&f, (struct view){(const char *)b->data, len}, NULL, &e),
                     -1);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", e.text, cause);
}

static void test_damaged_containers(void **state)
{
    struct buf b = read_all(PDB);
    (void)state;
    store_u32(b.data + MSF_BLOCK_SIZE, 4095);
    refuses(&b, b.len, "blocks of 4095 bytes");
    store_u32(b.data + MSF_BLOCK_SIZE, 4096);
    uint32_t size = load_u32(b.data + MSF_DIRECTORY_SIZE);
    store_u32(b.data + MSF_DIRECTORY_SIZE, UINT32_MAX - 5000);
    refuses(&b, b.len, "beyond the end of the file");
    store_u32(b.data + MSF_DIRECTORY_SIZE, size);
    uint32_t list = load_u32(b.data + MSF_DIRECTORY_LIST);
    uint8_t *directory = b.data + (size_t)4096 * load_u32(b.data + (size_t)4096 * list);
    uint32_t count = load_u32(directory);
    store_u32(directory, UINT32_MAX);
    refuses(&b, b.len, "directory is cut short");
    store_u32(directory, count);
    uint32_t first = load_u32(directory + 8);
    store_u32(directory + 8, (uint32_t)b.len);
    refuses(&b, b.len, "larger than the file");
    store_u32(directory + 8, first);
    refuses(&b, 100, "the file");
    buf_release(&b);
}

static void test_damaged_images(void **state)
{
    struct buf b = read_all(IMAGE);
    (void)state;
    refuses(&b, 40, "beyond the end of the file");
    refuses(&b, 300, "beyond the end of the file");
    uint32_t at = load_u32(b.data + 0x3c);
    b.data[at] = 'X';
    refuses(&b, b.len, "without a PE header");
    b.data[at] = 'P';
    b.data[at + 24] = 9;
    refuses(&b, b.len, "unknown kind");
    buf_release(&b);
}

/* The number of a module's stream, in the list of modules. */
static uint8_t *stream_of(struct buf *b, const char *module)
{
    uint8_t *name = memmem(b->data, b->len, module, strlen(module) + 1);
    assert_non_null(name);
    return name - 30;
}

/* Many modules with one large stream would take the square of the file's size. */
static void test_shared_stream(void **state)
{
    struct symbol_frame frames[8];
    struct buf b = read_all(PDB);
    size_t n;
    (void)state;
    struct elf_file *f = open_bytes(&b);
    struct symbol_index *x = index_of(f);
    assert_true(symbol_index_lookup(x, 0x1170, frames, 8, &n));
    assert_text(frames[n - 1].function, "other_day");
    symbol_index_free(x);
    elf_file_close(f);
    memcpy(stream_of(&b, "C:\\shop\\other.obj"), stream_of(&b, "C:\\shop\\leak.obj"), 2);
    f = open_bytes(&b);
    assert_int_equal(pdb_file_module_at(elf_file_pdb(f), 1)->stream, UINT32_MAX);
    x = index_of(f);
    assert_false(symbol_index_lookup(x, 0x1170, frames, 8, &n));
    assert_true(symbol_index_lookup(x, CALL_IN_INSERT, frames, 8, &n));
    symbol_index_free(x);
    elf_file_close(f);
    buf_release(&b);
}

/* Lines of code that the linker discarded are in section 0. That is no damage. */
static void test_discarded_lines(void **state)
{
    static const char lines[] = "\xf2\0\0"; /* kind, size; offset, section */
    struct symbol_frame frames[8];
    struct index_facts facts;
    struct buf b = read_all(PDB);
    size_t n, changed = 0;
    (void)state;
    for (uint8_t *at = b.data; (at = memmem(at, (size_t)(b.data + b.len - at), lines, 4));
         at += 4) {
        if (load_u32(at + 4) > 4096 || load_u32(at + 8) != 0xf0)
            continue;
        assert_int_equal(load_u16(at + 12), 1);
        store_u16(at + 12, 0);
        changed++;
    }
    assert_int_equal(changed, 1);
    struct elf_file *f = open_bytes(&b);
    struct symbol_index *x = index_of(f);
    symbol_index_facts(x, &facts);
    assert_int_equal(facts.units_incomplete, 0);
    assert_true(symbol_index_lookup(x, CALL_IN_INSERT, frames, 8, &n));
    assert_text(frames[n - 1].function, "shop::Cache::remember");
    assert_int_equal(frames[n - 1].line, 0);
    symbol_index_free(x);
    elf_file_close(f);
    buf_release(&b);
}

/* Opens, walks and asks; nothing may be read that is not there. */
static void use(const struct buf *b, size_t len)
{
    struct elf_file *f;
    struct symbol_index *x;
    struct elf_symbols *s;
    struct symbol_frame frames[8];
    struct err e = {0};
    size_t n;
    const struct index_options o = {.threads = 1};
    if (elf_file_open_bytes(&f, (struct view){(const char *)b->data, len}, NULL, &e) != 0)
        return;
    if (elf_file_pdb(f) && symbol_index_build(&x, f, NULL, &o, &e) == 0) {
        for (uint64_t a = 0x1000; a < 0x1240; a += 5)
            (void)symbol_index_lookup(x, a, frames, 8, &n);
        symbol_index_free(x);
    }
    assert_int_equal(elf_symbols_read(&s, f, NULL, NULL, NULL), 0);
    elf_symbols_free(s);
    elf_file_close(f);
}

static void damage(const char *path, size_t step)
{
    struct buf b = read_all(path);
    for (size_t at = 0; at < b.len; at += step) {
        /* A copy of exact size, so that a sanitizer sees each byte read behind it. */
        struct buf cut = {0};
        buf_put(&cut, b.data, at);
        if (at > 0)
            use(&cut, cut.len);
        buf_release(&cut);
        uint8_t was = b.data[at];
        if (was == 0 && at % 3)
            continue;
        b.data[at] = (uint8_t)(was ^ 0xff);
        use(&b, b.len);
        b.data[at] = (uint8_t)(was + 1);
        use(&b, b.len);
        b.data[at] = was;
    }
    buf_release(&b);
}

static void test_damage_everywhere(void **state)
{
    (void)state;
    damage(IMAGE, 1);
    damage(EXPORTS, 1);
    damage(SCATTERED, 7);
}

/* The line table of a function may begin behind the code of its first inlined call. */
static void test_call_before_the_first_row(void **state)
{
    (void)state;
    static const uint32_t rows[] = {0, 29, 0xe, 30, 0x2d, 32, 0x6a, 31}, /* offset, line */
        later[] = {0x66, 0x67, 0x68};
    struct buf b = read_all(PDB);
    size_t at = 0, found = 0;
    for (size_t i = 0; i + sizeof rows <= b.len; i += 4) {
        size_t n = 0;
        while (n < sizeof rows / sizeof *rows &&
               (load_u32(b.data + i + 4 * n) & (n % 2 ? 0xffffff : UINT32_MAX)) == rows[n])
            n++;
        found += n == sizeof rows / sizeof *rows;
        at = n == sizeof rows / sizeof *rows ? i : at;
    }
    assert_int_equal(found, 1);
    for (size_t i = 0; i < 3; i++)
        store_u32(b.data + at + 8 * i, later[i]);
    struct symbol_frame frames[8];
    size_t n;
    struct elf_file *f = open_bytes(&b);
    struct symbol_index *x = index_of(f);
    assert_true(symbol_index_lookup(x, CALL_IN_INSERT, frames, 8, &n));
    assert_int_equal(n, 2);
    assert_text(frames[1].function, "shop::Cache::remember");
    assert_text(frames[1].file, "C:\\shop\\leak.cpp");
    assert_int_equal(frames[1].line, 29);
    symbol_index_free(x);
    elf_file_close(f);
    buf_release(&b);
}

static void assert_decoded(const char *name, const char *wanted)
{
    struct buf out = {0};
    assert_int_equal(msvc_name(name, &out), wanted != NULL);
    assert_string_equal(buf_str(&out), wanted ? wanted : "");
    buf_release(&out);
}

/* Names of programs of Microsoft's linker, as their procedure symbols have them, unless marked. */
static void test_names_of_microsofts_compiler(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"?A0x26b469a4::open", "`anonymous namespace'::open"},
        {"net::?A0x26b469a4::Pipe::open", "net::`anonymous namespace'::Pipe::open"},
        {"?insert@Map@store@@QEAAXH@Z", "store::Map::insert"},
        {"?winpty_vsnprintf@@YAHPEAD_KPEBD0@Z", "winpty_vsnprintf"},
        {"?f@?A0x26b469a4@net@@YAXXZ", "net::`anonymous namespace'::f"},
        {"?again@a@b@1@YAXXZ", "a::b::a::again"},
        {"??0bad_alloc@std@@QEAA@XZ", "std::bad_alloc::bad_alloc"},
        {"??1Cache@@QEAA@XZ", "Cache::~Cache"},
        {"??RLess@@QEBA_NHH@Z", "Less::operator()"},
        {"??2@YAPEAX_K@Z", "operator new"},
        {"??_UPool@@SAPEAX_K@Z", "Pool::operator new[]"},
        {"??0@QEAA@XZ", NULL},
        {"?a@9@YAXXZ", NULL},
        {"?a@b@@", NULL},
        {"?a", NULL},
        {"?", NULL},
        {"?A0x", NULL},
        {"", NULL},
        {"plain", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_decoded(cases[i][0], cases[i][1]);
}

static void test_names_with_templates(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"??$get@H@store@@YAHXZ", "store::get<int>"},
        {"?_Tidy@?$vector@DV?$allocator@D@std@@@std@@AEAAXXZ",
         "std::vector<char,std::allocator<char> >::_Tidy"},
        {"??1?$_Yarn@D@std@@QEAA@XZ", "std::_Yarn<char>::~_Yarn<char>"},
        {"??1?$unique_ptr@$$BY0A@DU?$default_delete@$$BY0A@D@std@@@std@@QEAA@XZ",
         "std::unique_ptr<char [0],std::default_delete<char [0]> >::"
         "~unique_ptr<char [0],std::default_delete<char [0]> >"},
        {"??$?6U?$char_traits@D@std@@@std@@YAAEAV?$basic_ostream@DU?$char_traits@D@std@@@0@AEAV10@"
         "PEBD@Z",
         "std::operator<<<std::char_traits<char> >"},
        {"??$_Construct@$00PEB_W@?$basic_string@_WU?$char_traits@_W@std@@V?$allocator@_W@2@@std@@"
         "AEAAXQEB_W_K@Z",
         "std::basic_string<wchar_t,std::char_traits<wchar_t>,std::allocator<wchar_t> >::"
         "_Construct<1,wchar_t const *>"},
        {"??$_Emplace_reallocate@AEBQEAVNamedPipe@@@?$vector@PEAVNamedPipe@@V?$allocator@"
         "PEAVNamedPipe@@@std@@@std@@AEAAPEAPEAVNamedPipe@@QEAPEAV2@AEBQEAV2@@Z",
         "std::vector<NamedPipe *,std::allocator<NamedPipe *> >::"
         "_Emplace_reallocate<NamedPipe * const &>"},
        {"?_Erase@?$_Tree@V?$_Tmap_traits@KPEAXU?$less@K@std@@V?$allocator@U?$pair@$$CBKPEAX@std@@@"
         "2@$0A@@std@@@std@@AEAAXXZ",
         "std::_Tree<std::_Tmap_traits<unsigned long,void *,std::less<unsigned long>,"
         "std::allocator<std::pair<unsigned long const ,void *> >,0> >::_Erase"},
        {"??$New@P6A?AVValue@Napi@@AEBVCallbackInfo@2@@Z@Function@Napi@@SA?AV01@PEAUnapi_env__@@"
         "P6A?AVValue@1@AEBVCallbackInfo@1@@ZPEBDPEAX@Z",
         "Napi::Function::New<Napi::Value (__cdecl*)(Napi::CallbackInfo const &)>"},
        {"??$WrapCallback@V<lambda_1>@?1??RegisterModule@Napi@@YAPEAUnapi_value__@@PEAUnapi_env__@@"
         "PEAU4@P6A?AVObject@3@VEnv@3@V63@@Z@Z@@details@Napi@@YAPEAUnapi_value__@@V<lambda_1>@?1??"
         "RegisterModule@1@YAPEAU2@PEAUnapi_env__@@PEAU2@P6A?AVObject@1@VEnv@1@V61@@Z@Z@@Z",
         "Napi::details::WrapCallback<`Napi::RegisterModule'::`2'::<lambda_1> >"},
        {"??_GImpl@?$SecurityItem@UAclTag@@@@UEAAPEAXI@Z",
         "SecurityItem<AclTag>::Impl::`scalar deleting destructor'"},
        {"??__E_Fac_tidy_reg@std@@YAXXZ", "std::`dynamic initializer for '_Fac_tidy_reg''"},
        /* As llvm-undname has them. */
        {"??B?$Lazy@H@@QEBAPEBDXZ", "Lazy<int>::operator char const *"},
        {"?f@?1??g@@YAXXZ@YAXXZ", "`g'::`2'::f"},
        {"?f@?BA@??main@@9@YAXXZ", "`main'::`16'::f"},
        {"??$f@$0?0$$V@@YAXXZ", "f<-1>"},
        {"??$f@$1?g@a@@YAXXZ$E?v@@3HA@@YAXXZ", "f<&a::g,v>"},
        {"??$f@P8A@@EAAHHZZPEQA@@H@@YAXXZ", "f<int (__cdecl A::*)(int,...),int A::*>"},
        {"??$f@AEAY0CA@$$CBDPEAP6AXXZ$$A6AHXZ@@YAXXZ",
         "f<char const (&)[32],void (__cdecl**)(void),int __cdecl(void)>"},

        {"??$f@$$QEAVA@b@@W4Kind@2@$$T@@YAXXZ", "f<b::A &&,b::Kind,std::nullptr_t>"},
        {"?go@?$TA@$$YAl@ns@@@ns@@QEAAXXZ", "ns::TA<ns::Al>::go"},
        {"?go@?$TA@$$YF@@@ns@@QEAAXXZ", "ns::TA<F>::go"},
        {"??$f@V<lambda_1>@?0??h@@YAXXZ@Z@@YAXXZ", NULL}, /* the scopes do not end */
        {"??$f@", NULL},
        {"??$f@H", NULL},
        {"??$f@H@@", NULL},
        {"??$f@$0A@@@YAXXZ", "f<0>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_decoded(cases[i][0], cases[i][1]);
}

static void assert_decodes_or_not(struct buf *name)
{
    struct buf out = {0};
    bool is_decoded = msvc_name(buf_str(name), &out);
    assert_int_equal(is_decoded, out.len > 0);
    assert_true(out.len <= MSVC_NAME_MAX);
    buf_release(&out);
    buf_clear(name);
}

/* Depth, and digits of which each repeats the type before twice. */
static void test_names_that_grow(void **state)
{
    (void)state;
    static const char *const again[] = {"V?$a@",        "PEA",  "P6AX", "?1??f@",
                                        "V?$a@$1??$f@", "Y0A@", "?$a@"};
    struct buf name = {0};
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        buf_puts(&name, "??$f@");
        for (size_t n = 0; n < 20000; n++)
            buf_puts(&name, again[i]);
        assert_decodes_or_not(&name);
    }
    buf_puts(&name, "??$f@P6AXVlong_name_of_a_class@@");
    for (unsigned i = 0; i < 9; i++)
        buf_printf(&name, "P6AX%u%u%u%u@Z", i, i, i, i);
    buf_puts(&name, "@Z@@YAXXZ");
    struct buf out = {0};
    assert_false(msvc_name(buf_str(&name), &out));
    assert_decodes_or_not(&name);
    buf_release(&name);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_microsofts_compiler),
        cmocka_unit_test(test_names_with_templates),
        cmocka_unit_test(test_names_that_grow),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_ids_agree),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_call_before_the_first_row),
        cmocka_unit_test(test_publics),
        cmocka_unit_test(test_exports),
        cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_damaged_containers),
        cmocka_unit_test(test_damaged_images),
        cmocka_unit_test(test_shared_stream),
        cmocka_unit_test(test_discarded_lines),
        cmocka_unit_test(test_damage_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
