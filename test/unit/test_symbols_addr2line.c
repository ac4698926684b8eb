/*
 * Asking a tool for addresses: how it is called, what is made of its answers, and that neither
 * names nor answers of a hostile image do more than they may. The tools are shell scripts.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "symbols/addr2line.h"

static char folder[] = "/tmp/tidemark-tools-XXXXXX";
static char tool[64];

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(tool, sizeof tool, "%s/tool", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(tool);
    return rmdir(folder);
}

static void write_tool(const char *script)
{
    FILE *f = fopen(tool, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    assert_int_equal(chmod(tool, 0700), 0);
}

/* Writes each entry as a line. */
static int put_entry(void *ctx, const struct addr2line_entry *entry, struct err *e)
{
    struct buf *out = ctx;
    (void)e;
    buf_printf(out, "%zu %.*s|%.*s|%u\n", entry->i, (int)entry->function.len, entry->function.p,
               (int)entry->file.len, entry->file.p, entry->line);
    return 0;
}

static void expect(const char *arguments, const char *image, const char *want)
{
    static const uint64_t addresses[] = {0x10, 0x2000, UINT64_MAX};
    struct addr2line_options options = {.tool = tool, .arguments = arguments};
    struct buf out = {0};
    struct err e = {0};
    size_t answered, lines = 0;
    if (addr2line_ask(&options, image, addresses, 3, put_entry, &out, &answered, &e) != 0)
        fail_msg("%s", e.text);
    assert_string_equal(buf_str(&out), want);
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(answered, lines);
    buf_release(&out);
}

static void test_answers(void **state)
{
    (void)state;
    write_tool("echo 0x10; echo main; echo /src/a.c:12\n"
               "echo 0x0000000000002000; echo 'f(int)'; echo '/src/b:c.c:7 (discriminator 3)'\n"
               "echo 0xffffffffffffffff; echo '?"
               "?'; echo '?"
               "?:?'");
    expect(NULL, "image", "0 main|/src/a.c|12\n1 f(int)|/src/b:c.c|7\n2 ||0\n");
    /* Functions inlined there are passed over, and so are addresses that nobody asked for. */
    write_tool("echo 0x10; echo inner; echo a.c:1; echo main; echo a.c:2\n"
               "echo 0x11; echo g; echo g.c:3\n"
               "echo 0x2000; echo '?"
               "?'; echo '?"
               "?:0'");
    expect(NULL, "image", "0 inner|a.c|1\n1 |??|0\n");
    write_tool("echo 0x10; echo main; echo 'a.c:99999999999999999999'; echo 0x2000; echo f");
    expect(NULL, "image", "0 main|a.c|0\n");
    write_tool("exit 3");
    expect(NULL, "image", "");
}

static void test_command_line(void **state)
{
    (void)state;
    write_tool("echo 0x10; echo \"$*\"; echo \"$#:1\"");
    expect(NULL, "a b", "0 -C -f -e a b -a 0x10 0x2000 0xffffffffffffffff|8|1\n");
    expect("  -i 'x  y' \"z'\"w ", "-I",
           "0 -C -f -i x  y z'w -e -I -a 0x10 0x2000 0xffffffffffffffff|11|1\n");
    /* No shell: this would otherwise make a file. */
    expect(NULL, "$(touch /tmp/tidemark-was-here);`id`|&",
           "0 -C -f -e $(touch /tmp/tidemark-was-here);`id`|& -a 0x10 0x2000 "
           "0xffffffffffffffff|8|1\n");
    assert_int_equal(access("/tmp/tidemark-was-here", F_OK), -1);
}

static void test_many_addresses(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint64_t addresses[N];
    struct addr2line_options options = {.tool = tool};
    struct buf out = {0};
    struct err e = {0};
    char last[64];
    size_t answered;
    for (size_t i = 0; i < N; i++)
        addresses[i] = i * 16 + 1;
    write_tool("shift 5; for a; do echo $a; echo f$a; echo f.c:${#a}; done");
    assert_int_equal(addr2line_ask(&options, "image", addresses, N, put_entry, &out, &answered, &e),
                     0);
    assert_int_equal(answered, N);
    snprintf(last, sizeof last, "%d f0x%x|f.c|7\n", N - 1, (N - 1) * 16 + 1);
    assert_string_equal(buf_str(&out) + out.len - strlen(last), last);
    buf_release(&out);
}

/* A line of three megabytes is cut, and does not stand in the way of what follows. */
static void test_long_line(void **state)
{
    (void)state;
    static const uint64_t addresses[] = {16, 32};
    struct addr2line_options options = {.tool = tool};
    struct buf out = {0};
    struct err e = {0};
    size_t answered;
    write_tool("echo 0x10; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo a.c:1\n"
               "echo 0x20; echo g; echo b.c:2");
    assert_int_equal(addr2line_ask(&options, "image", addresses, 2, put_entry, &out, &answered, &e),
                     0);
    assert_int_equal(answered, 2);
    assert_in_range(out.len, 1 << 20, (1 << 20) + 64);
    assert_string_equal(buf_str(&out) + out.len - 10, "1 g|b.c|2\n");
    buf_release(&out);
}

static void test_no_tool(void **state)
{
    (void)state;
    static const uint64_t address = 1;
    struct addr2line_options options = {.tool = "/nonexistent/tool"};
    struct err e = {0};
    size_t answered;
    assert_int_equal(addr2line_ask(&options, "x", &address, 1, put_entry, NULL, &answered, &e), -1);
    assert_int_equal(e.code, ERR_CHECK);
    assert_string_equal(e.text, "cannot start /nonexistent/tool: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_many_addresses), cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_no_tool),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
