/* The table of file layouts, version texts, and the names and sizes of records. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ctype.h>
#include <string.h>

#include "trace/file/file_version.h"
#include "trace/file/record.h"

static void test_layouts_ascend(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    assert_int_equal(n, 21);
    assert_int_equal(all[0].version, FILE_VERSION_MIN);
    assert_int_equal(all[n - 1].version, FILE_VERSION_MAX);
    for (unsigned i = 0; i < n; i++) {
        assert_ptr_equal(file_layout_find(all[i].version), &all[i]);
        if (i > 0)
            assert_true(all[i].version > all[i - 1].version);
    }
}

static void test_unknown_versions(void **state)
{
    (void)state;
    assert_null(file_layout_find(0));
    assert_null(file_layout_find(FILE_VERSION(0, 8, 9)));
    assert_null(file_layout_find(FILE_VERSION(0, 10, 1)));
    assert_null(file_layout_find(FILE_VERSION(0, 14, 1)));
    assert_null(file_layout_find(FILE_VERSION(1, 9, 0)));
}

/* "Section × version" of the format's fact sheet: the first version with each feature. */
static void test_features_begin_where_they_should(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        uint32_t v = all[i].version;
        assert_int_equal(all[i].delay, v < FILE_VERSION(0, 12, 3));
        assert_int_equal(all[i].on_demand, v >= FILE_VERSION(0, 9, 2));
        assert_int_equal(all[i].multi_stream, v >= FILE_VERSION(0, 11, 0));
        assert_int_equal(all[i].group_hint, v >= FILE_VERSION(0, 11, 1));
        assert_int_equal(all[i].dies, v >= FILE_VERSION(0, 11, 2));
        assert_int_equal(all[i].no_location, v >= FILE_VERSION(0, 11, 2));
        assert_int_equal(all[i].wakeup_cpu, v >= FILE_VERSION(0, 11, 3));
        assert_int_equal(all[i].gpu_notes, v >= FILE_VERSION(0, 12, 4));
        assert_int_equal(all[i].message_meta, v >= FILE_VERSION(0, 13, 2));
        assert_int_equal(all[i].sorted_plots, v >= FILE_VERSION(0, 13, 3));
        assert_int_equal(all[i].sorted_switches, v >= FILE_VERSION(0, 13, 6));
        assert_int_equal(all[i].sections, v < FILE_VERSION(0, 13, 4)    ? SECTIONS_NONE
                                          : v == FILE_VERSION(0, 13, 4) ? SECTIONS_FLAT
                                                                        : SECTIONS_BY_CATEGORY);
        assert_int_equal(all[i].gpu_type_max, v <= FILE_VERSION(0, 11, 1)   ? 5
                                              : v <= FILE_VERSION(0, 12, 2) ? 8
                                              : v <= FILE_VERSION(0, 13, 1) ? 9
                                                                            : 10);
        assert_int_equal(all[i].plot_format_max, v <= FILE_VERSION(0, 9, 1) ? 2 : 3);
    }
}

static void test_text(void **state)
{
    (void)state;
    char text[FILE_VERSION_TEXT_SIZE];
    uint32_t version = 1;
    struct err e;
    assert_string_equal(file_version_text(FILE_VERSION(0, 12, 2), text), "0.12.2");
    assert_string_equal(file_version_text(UINT32_MAX, text), "65535.255.255");
    assert_int_equal(file_version_parse("0.13.6", &version, &e), 0);
    assert_int_equal(version, FILE_VERSION(0, 13, 6));
    static const char *const bad[] = {
        "",       "0",      "0.13",   "0.13.",  "0.13.6.1", "0.13.6 ", "v0.13.6",
        "0.-1.0", "0.10.1", "0.14.1", "0.13.7", "0..6",     "0.269.6", "99999999999999999999.1.1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        version = 7;
        assert_int_equal(file_version_parse(bad[i], &version, &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        assert_int_equal(version, 7);
        assert_non_null(strstr(e.text, "0.9.0, 0.9.1"));
    }
}

static void test_record_names(void **state)
{
    (void)state;
    static const char *const types[] = {
#define RECORD(NAME, STRUCT, TEXT) #NAME,
        RECORD_TYPES(RECORD)
#undef RECORD
    };
    static const size_t sizes[] = {
#define RECORD(NAME, STRUCT, TEXT) sizeof(struct rec_##STRUCT),
        RECORD_TYPES(RECORD)
#undef RECORD
    };
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++) {
        assert_int_equal(record_size(i), sizes[i]);
        assert_non_null(record_name(i));
        assert_true(strlen(record_name(i)) > 2);
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(record_name(i), record_name(k));
        for (const char *p = record_name(i); *p; p++)
            assert_false(*p == '_');
        assert_non_null(types[i]);
    }
    assert_string_equal(record_name(REC_MEMORY_EVENT), "memory event");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_ascend),
        cmocka_unit_test(test_unknown_versions),
        cmocka_unit_test(test_features_begin_where_they_should),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_record_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
