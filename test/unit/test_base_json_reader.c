/* The reader of JSON against jansson's, on texts made by hand and on damaged ones. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_reader.h"

#define FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

static const char *const texts[] = {
    "{}",
    "[]",
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-12.5e+3",
    "1E-2",
    "9223372036854775807",
    "-9223372036854775808",
    "\"\"",
    "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20ac\\ud83d\\ude00\"",
    "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"",
    " { \"a\" : [ 1 , 2.5 , { } ] , \"b\" : { \"c\" : null } }\r\n",
    "[[[[[[[[[[1]]]]]]]]]]",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}",
    "[1,2,3,4,5,6,7,8,9,0,-1,1e1]",
};
static const char *const broken[] = {
    "",
    " ",
    "{",
    "}",
    "[",
    "]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\":1,\"a\":2}",
    "{\"a\" 1}",
    "nul",
    "nulll",
    "True",
    "01",
    "-",
    "-a",
    "1.",
    ".5",
    "1e",
    "1e+",
    "+1",
    "0x10",
    "NaN",
    "1e999",
    "9223372036854775808",
    "\"",
    "\"a",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "\"a\nb\"",
    "\"\x80\"",
    "\"\xc3\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "1 1",
    "{} x",
    "// a\n1",
};
#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

/* Both take it, and to the same, or neither does. */
static bool compare(const char *text, size_t n)
{
    json_t *ours;
    enum json_outcome outcome = json_read((struct view){text, n}, false, &ours);
    json_t *theirs = json_loadb(text, n, FLAGS, NULL);
    bool taken = ours != NULL;
    assert_int_equal(outcome, taken ? JSON_READ : JSON_BROKEN);
    if (taken != (theirs != NULL) || (taken && !json_equal(ours, theirs)))
        fail_msg("%.*s", (int)n, text);
    json_decref(ours);
    json_decref(theirs);
    return taken;
}

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(texts); i++)
        assert_true(compare(texts[i], strlen(texts[i])));
    for (size_t i = 0; i < LENGTH(broken); i++)
        assert_false(compare(broken[i], strlen(broken[i])));
}

/* Every cut, and every byte changed to each of some. */
static void test_damaged(void **state)
{
    static const char other[] = "\"\\{}[]:,0-.eu \x80\xc3\xed\x01";
    char copy[200];
    size_t taken = 0;
    (void)state;
    for (size_t i = 0; i < LENGTH(texts); i++) {
        size_t n = strlen(texts[i]);
        for (size_t at = 0; at < n; at++) {
            compare(texts[i], at);
            for (size_t k = 0; k < sizeof other - 1; k++) {
                memcpy(copy, texts[i], n);
                copy[at] = other[k];
                taken += compare(copy, n);
            }
        }
    }
    assert_true(taken > 100);
}

static void test_limits(void **state)
{
    char deep[2 * JSON_DEPTH_MAX + 2];
    json_t *value;
    (void)state;
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        enum json_outcome outcome = json_read((struct view){deep, 2 * depth}, false, &value);
        assert_int_equal(outcome, depth <= JSON_DEPTH_MAX ? JSON_READ : JSON_BROKEN);
        json_decref(value);
    }
    static const char nul[] = "\"a\\u0000b\"";
    assert_int_equal(json_read((struct view){nul, sizeof nul - 1}, true, &value), JSON_READ);
    assert_int_equal(json_string_length(value), 3);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
