/* What a capture has saved: all is counted, the newest are known, and only its own files are. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/capture/part_name.h"
#include "server/capture/saved_traces.h"

static void all_are_counted_and_the_newest_known(void **state)
{
    (void)state;
    struct saved_traces s = {0};
    char path[32];
    const unsigned n = SAVED_TRACES_LISTED + 50;
    assert_null(saved_traces_newest(&s));
    for (unsigned i = 1; i <= n; i++) {
        snprintf(path, sizeof path, "d/x.%u.tracy", i);
        assert_true(saved_traces_add(&s, path, i));
        assert_false(saved_traces_add(&s, path, 1000));
        assert_string_equal(saved_traces_newest(&s)->path, path);
    }
    json_t *o = saved_traces_json(json_object(), &s);
    const json_t *parts = json_object_get(o, "parts");
    const json_t *oldest = json_array_get(parts, 0);
    assert_int_equal(json_array_size(parts), SAVED_TRACES_LISTED);
    assert_string_equal(json_string_value(json_object_get(oldest, "trace")), "d/x.51.tracy");
    assert_int_equal(json_integer_value(json_object_get(oldest, "trace_bytes")), 51);
    assert_int_equal(json_integer_value(json_object_get(o, "parts_saved")), n);
    assert_int_equal(json_integer_value(json_object_get(o, "parts_bytes")), n * (n + 1) / 2);
    json_decref(o);
    saved_traces_forget(&s);
    assert_int_equal(s.count, n);
    assert_null(saved_traces_newest(&s));
}

static void parts_are_told_by_their_names(void **state)
{
    (void)state;
    static const char output[] = "d.d/x.y.tracy";
    static const char *const others[] = {"",
                                         "d.d/x.y",
                                         "d.d/x.y.tracy2",
                                         "d.d/x.y..tracy",
                                         "d.d/x.y.2.tracy/../../a",
                                         "d.d/x.y.2a.tracy",
                                         "d.d/x.y.recovered.tracy",
                                         "d.d/x.y_1.tracy",
                                         "d.d/x.2.tracy",
                                         "e/x.y.tracy"};
    assert_true(part_name_is(output, output));
    for (unsigned n = 1; n < 100; n++) {
        char *name = part_name(output, n);
        assert_true(part_name_is(output, name));
        free(name);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(part_name_is(output, others[i]));
    assert_true(part_name_is("a.b/x", "a.b/x.12"));
    assert_false(part_name_is("a.b/x", "a.b/x."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_counted_and_the_newest_known),
        cmocka_unit_test(parts_are_told_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
