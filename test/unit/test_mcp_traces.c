/* What may be opened below a root, with the kernel's help and without. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "mcp/traces.h"

#define SAMPLE "fixtures/traces/v0.14.0/ledger.tracy"

/* A folder with a root in it, and beside it what must not be read. */
struct place {
    char folder[64];
    char path[256];
};

static const char *path_of(struct place *p, const char *name)
{
    snprintf(p->path, sizeof p->path, "%s/%s", p->folder, name);
    return p->path;
}

static void copy_to(struct place *p, const char *name)
{
    char bytes[1 << 16];
    FILE *in = fopen(SAMPLE, "rb");
    FILE *out = fopen(path_of(p, name), "wb");
    assert_true(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static const char *const names[] = {"root/link.tracy",    "root/up",    "root/inner/same.tracy",
                                    "root/inner/a.tracy", "root/inner", "root",
                                    "root2/a.tracy",      "root2",      "secret.tracy"};

static int make_place(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    if (!p)
        return -1;
    snprintf(p->folder, sizeof p->folder, "/tmp/mcp-test-XXXXXX");
    if (!mkdtemp(p->folder) || mkdir(path_of(p, "root"), 0700) != 0 ||
        mkdir(path_of(p, "root2"), 0700) != 0 || mkdir(path_of(p, "root/inner"), 0700) != 0)
        return -1;
    copy_to(p, "secret.tracy");
    copy_to(p, "root2/a.tracy");
    copy_to(p, "root/inner/a.tracy");
    *state = p;
    return symlink("../secret.tracy", path_of(p, "root/link.tracy")) ||
           symlink("..", path_of(p, "root/up")) ||
           symlink("a.tracy", path_of(p, "root/inner/same.tracy"));
}

static int remove_place(void **state)
{
    struct place *p = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)remove(path_of(p, names[i]));
    int status = rmdir(p->folder);
    free(p);
    return status;
}

static int get(struct traces *t, const char *path, struct err *e)
{
    struct tidetrace *trace = NULL;
    struct file_identity file;
    bool fresh = false;
    *e = (struct err){0};
    traces_begin(t);
    int status = traces_get(t, path, 0, &trace, &file, &fresh, e);
    assert_int_equal(status == 0, trace != NULL);
    traces_trim(t);
    return status;
}

static void check_root(struct place *p, bool stepwise)
{
    static const char *const refused[] = {"../secret.tracy",
                                          "inner/../../secret.tracy",
                                          "link.tracy",
                                          "up/secret.tracy",
                                          "/etc/passwd",
                                          "//etc/passwd",
                                          "inner/./../../root2/a.tracy"};
    static const char *const absent[] = {"nothing.tracy", "inner/nothing/a.tracy",
                                         "inner/a.tracy/b"};
    struct traces t;
    struct err e = {0};
    char path[320];
    assert_int_equal(traces_init(&t, path_of(p, "root"), 1 << 30, &e), 0);
    t.stepwise = stepwise;
    assert_int_equal(get(&t, "inner/a.tracy", &e), 0);
    assert_int_equal(get(&t, ".//inner/./a.tracy", &e), 0);
    snprintf(path, sizeof path, "%s/inner/a.tracy", t.root_path);
    assert_int_equal(get(&t, path, &e), 0);
    assert_int_equal(t.list.len, 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (get(&t, refused[i], &e) == 0 || !strstr(e.text, "not within the folder"))
            fail_msg("%s: %s", refused[i], e.text);
    }
    snprintf(path, sizeof path, "%s2/a.tracy", t.root_path);
    assert_int_equal(get(&t, path, &e), -1);
    assert_non_null(strstr(e.text, "not within the folder"));
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        if (get(&t, absent[i], &e) == 0 || !strstr(e.text, "cannot open"))
            fail_msg("%s: %s", absent[i], e.text);
    }
    assert_int_equal(get(&t, "inner", &e), -1);
    assert_non_null(strstr(e.text, "no regular file"));
    /* A link that stays within is followed where the kernel can tell. */
    assert_true(get(&t, "inner/same.tracy", &e) == 0 || strstr(e.text, "not within the folder"));
    traces_release(&t);
}

static void test_root(void **state)
{
    check_root(*state, false);
    check_root(*state, true);
}

/* What was not asked for longest goes; what the call has got stays, however little room there is.
 */
static void test_room(void **state)
{
    struct traces t;
    struct err e;
    (void)state;
    assert_int_equal(traces_init(&t, NULL, 1 << 20, &e), 0);
    assert_int_equal(get(&t, SAMPLE, &e), 0);
    assert_int_equal(get(&t, "fixtures/traces/v0.14.0/memscen.tracy", &e), 0);
    size_t both = t.list.len;
    assert_int_equal(get(&t, SAMPLE, &e), 0);
    assert_int_equal(t.list.len, both);
    t.memory = 1;
    assert_int_equal(get(&t, SAMPLE, &e), 0);
    assert_int_equal(t.list.len, 1);
    traces_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_root, make_place, remove_place),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
