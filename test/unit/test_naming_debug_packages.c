/* The packages of files, by dpkg's lists. */

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

#include "naming/debug_packages.h"

static void test_lines(void **state)
{
    (void)state;
    const struct view list =
        view_of("/.\n/usr\n/usr/bin/tool\n/usr/bin/tool2\n/lib/libc.so.6\n/end");
    static const char *const listed[] = {
        "/usr/bin/tool", "/bin/tool", "/usr/bin/tool2", "/lib/libc.so.6", "/usr/lib/libc.so.6",
        "/end",          "/."};
    static const char *const others[] = {
        "/usr/bin/too", "/usr/bin/tool22",     "usr/bin/tool", "",
        "/en",          "/usr\n/usr/bin/tool", "/usrbin/tool", "/usr/end2"};
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        assert_true(package_lists(list, view_of(listed[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(package_lists(list, view_of(others[i])));
    assert_false(package_lists((struct view){0}, view_of("/a")));
    /* Longer than any path. */
    char *deep = malloc(9000);
    assert_non_null(deep);
    memset(deep, 'x', 9000);
    deep[0] = '/';
    assert_false(package_lists(list, (struct view){deep, 9000}));
    free(deep);
}

static void test_names(void **state)
{
    (void)state;
    char out[DEBUG_PACKAGE_SIZE];
    assert_true(package_of_list("libsqlite3-0:amd64.list", out));
    assert_string_equal(out, "libsqlite3-0");
    assert_true(package_of_list("g++-12.list", out));
    assert_string_equal(out, "g++-12");
    assert_false(package_of_list(".list", out));
    assert_false(package_of_list(":amd64.list", out));
    assert_false(package_of_list("a\033b.list", out));
    assert_false(package_of_list("A b.list", out));
    assert_false(package_of_list("libsqlite3-0.md5sums", out));
    char longest[400];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 300, ".list", 6);
    assert_false(package_of_list(longest, out));
    assert_string_equal(debug_package_name("libsqlite3-0", out), "libsqlite3-0-dbgsym");
    assert_string_equal(debug_package_name("libc6", out), "libc6-dbg");
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_folders(void **state)
{
    (void)state;
    char folder[] = "/tmp/tidemark-packages-XXXXXX", path[256], command[300];
    assert_non_null(mkdtemp(folder));
    put(folder, "one:amd64.list", "/usr/bin/one\n/usr/bin/both\n");
    put(folder, "two.list", "/usr/bin/two\n/usr/bin/both\n");
    put(folder, "odd name.list", "/usr/bin/odd\n");
    /* A link, a pipe and a folder are no lists; a pipe must not block. */
    snprintf(path, sizeof path, "%s/link.list", folder);
    assert_int_equal(symlink("two.list", path), 0);
    snprintf(path, sizeof path, "%s/pipe.list", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/folder.list", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    struct packaged_file files[] = {{.path = view_of("/usr/bin/one")},
                                    {.path = view_of("/bin/two")},
                                    {.path = view_of("/usr/bin/both")},
                                    {.path = view_of("/usr/bin/odd")}};
    packages_of_files(folder, files, 4);
    assert_string_equal(files[0].package, "one");
    assert_string_equal(files[1].package, "two");
    assert_string_equal(files[2].package, "");
    assert_true(files[2].ambiguous);
    assert_string_equal(files[3].package, "");
    assert_false(files[3].ambiguous);
    packages_of_files("/nonexistent", files, 4);
    assert_string_equal(files[0].package, "");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
