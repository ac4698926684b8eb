/* Tables of options: values, ranges, rules, "did you mean", --help and completion. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options/nearest.h"
#define print_error unused_print_error /* cmocka has a function of this name */
#include "cli/options/options.h"
#include "cli/options/tree_options.h"
#undef print_error

enum colour { RED, GREEN, BLUE };

struct inner {
    uint64_t bytes;
    double seconds;
};

struct values {
    bool flag, cleared, was_given;
    const char *text, *first, *second;
    enum colour colour;
    uint16_t port;
    uint32_t count;
    uint64_t wide;
    double percent;
    struct inner inner;
    int rest;
};

static bool take_even(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)ctx;
    (void)option;
    (void)e;
    return strcmp(value, "two") == 0;
}

static bool take_nothing(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)ctx;
    return option_real(value, option, 1, 0, &(double){0}, e);
}

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    (void)arguments;
    (void)e;
    ((struct values *)ctx)->rest = n;
    return true;
}

#define FIELD(NAME) OPTION_FIELD(struct values, NAME)

static const struct option_row rows[] = {
    {"--flag", NULL, "sets", .letter = 'g', FIELD(flag)},
    {"--clear", NULL, "clears", .type = VALUE_SET, .least = false, FIELD(cleared)},
    {"--text", "TEXT", "any text", .letter = 't', FIELD(text),
     .given = offsetof(struct values, was_given)},
    {"--pair", "M N", "two", .type = VALUE_PAIR, FIELD(first),
     .second = offsetof(struct values, second)},
    {"--colour", "NAME", "one of {}; --flag begins a line of help when lines are this long, then",
     "green", .type = VALUE_WORD, .words = "red, green or blue", FIELD(colour)},
    {"--port", "N", "a port", "8086", .type = VALUE_NUMBER, .least = 1, FIELD(port)},
    {"--count", "N", "a number", .type = VALUE_NUMBER, .least = 2, .most = 10, FIELD(count)},
    {"-w", "N", "a wide number", .type = VALUE_NUMBER, FIELD(wide)},
    {"--percent", "[=PCT]", "a share", .type = VALUE_REAL, .most = 100, FIELD(percent)},
    {"--even", "N", "{}", .words = "two or four", .take = take_even},
    {"--never", "N", "no value", .words = "nothing", .take = take_nothing},
    {"--old", NULL, NULL, .type = VALUE_IGNORED},
    OPTION_HELP_ROW,
    {0},
};

static const struct option_row inner_rows[] = {
    {"--bytes", "SIZE", "a size", .type = VALUE_BYTES, OPTION_FIELD(struct inner, bytes)},
    {"--seconds", "S", "a time", .type = VALUE_SECONDS, OPTION_FIELD(struct inner, seconds)},
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = inner_rows, .base = offsetof(struct values, inner), .title = "Inside"},
    {0},
};

static const struct option_rule rules[] = {
    {"--bytes --seconds", OPTION_EXCLUDES, "--flag", NULL},
    {"--percent", OPTION_NEEDS, "--text --colour=red", NULL},
    {"--text --count --even", OPTION_ONE_OF, NULL, NULL},
    {"--pair", OPTION_EXCLUDES, "--colour!=red", "pairs are red"},
    {0},
};

static const struct command_line line = {.options = groups,
                                         .rules = rules,
                                         .usage = "usage: tool [OPTIONS]\n",
                                         .footer = "The end.\n",
                                         .arguments = "start or stop",
                                         .rest = take_rest};

static char output[8192]; /* standard output and errors of the last `parse` */

/* Parses words that end with NULL. */
static int parse(struct values *v, ...)
{
    char *argv[16] = {(char *)"tool"};
    int argc = 1;
    va_list list;
    va_start(list, v);
    for (char *word; (word = va_arg(list, char *)) && argc < 15; argc++)
        argv[argc] = word;
    va_end(list);
    *v = (struct values){.cleared = true};
    FILE *file = tmpfile();
    int streams[] = {dup(1), dup(2)};
    fflush(stdout);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    optind = 0;
    int status = command_line_parse(&line, v, argc, argv);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        dup2(streams[i], i + 1);
        close(streams[i]);
    }
    rewind(file);
    output[fread(output, 1, sizeof output - 1, file)] = 0;
    fclose(file);
    return status;
}

static void assert_said(const char *text)
{
    if (!strstr(output, text))
        fprintf(stderr, "'%s' is not in '%s'\n", text, output);
    assert_non_null(strstr(output, text));
}

static void stores_values(void **state)
{
    struct values v;
    (void)state;
    assert_int_equal(parse(&v, "--flag", "--clear", "-ttext", "x", "--port=65535", "-w",
                           "18446744073709551615", "y", NULL),
                     -1);
    assert_true(v.flag && !v.cleared && v.was_given);
    assert_string_equal(v.text, "text");
    assert_int_equal(v.port, 65535);
    assert_true(v.wide == UINT64_MAX);
    assert_int_equal(v.rest, 2);
    assert_int_equal(v.colour, GREEN);
    assert_int_equal(
        parse(&v, "--bytes", "1.5K", "--seconds", "0.5", "--colour", "blue", "--old", NULL), -1);
    assert_true(v.inner.bytes == 1536);
    assert_true(v.inner.seconds > 0.4 && v.inner.seconds < 0.6);
    assert_int_equal(v.colour, BLUE);
    assert_int_equal(v.port, 8086);
    assert_false(v.was_given);
    assert_int_equal(parse(&v, "--pair", "a", "b", "--colour", "red", "--percent", "c", NULL), -1);
    assert_string_equal(v.first, "a");
    assert_string_equal(v.second, "b");
    assert_int_equal(v.rest, 1);
    assert_int_equal(parse(&v, "--percent=12.5", "--text", "x", NULL), -1);
    assert_true(v.percent > 12.4 && v.percent < 12.6);
}

static void rejects_values(void **state)
{
    struct values v;
    (void)state;
    static char *const bad[][3] = {
        {"--port", "0", "--port takes a number from 1 to 65535, not '0'"},
        {"--port", "65536", "from 1 to 65535, not '65536'"},
        {"--count", "1", "from 2 to 10, not '1'"},
        {"--count", "11", "from 2 to 10, not '11'"},
        {"-w", "18446744073709551616", "-w takes a number from 0 to 18446744073709551615"},
        {"-w", "-1", "not '-1'"},
        {"-w", "0x10", "not '0x10'"},
        {"--colour", "pink", "--colour is red, green or blue, not 'pink'"},
        {"--colour", "", "not ''"},
        {"--colour", "or", "not 'or'"},
        {"--even", "four", "--even is two or four, not 'four'"},
        {"--never", "1", "--never takes a number from 1 to 0, not '1'"},
        {"--bytes", "K", "--bytes"},
        {"--seconds", "nan", "--seconds takes a number of seconds"},
        {"--percent=101", "x", "from 0 to 100, not '101'"},
        {"--pair", "one", "--pair takes two values, M N"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse(&v, bad[i][0], bad[i][1], NULL), 2);
        assert_said(bad[i][2]);
        assert_said("usage: tool [OPTIONS]; try 'tidemark tool --help'");
    }
}

static void keeps_rules(void **state)
{
    struct values v;
    (void)state;
    assert_int_equal(parse(&v, "--flag", "--seconds", "1", NULL), 2);
    assert_said("tool: --seconds does not go with --flag\n");
    assert_int_equal(parse(&v, "--percent", NULL), 2);
    assert_said("tool: --percent goes with --text --colour=red\n");
    assert_int_equal(parse(&v, "--percent", "--colour", "blue", NULL), 2);
    assert_int_equal(parse(&v, "--percent", "--colour", "red", NULL), -1);
    assert_int_equal(parse(&v, "--even", "two", "--count", "3", NULL), 2);
    assert_said("tool: --count does not go with --even\n");
    assert_int_equal(parse(&v, "--count", "3", "--count", "4", NULL), -1);
    assert_int_equal(parse(&v, "--pair", "a", "b", "--colour", "blue", NULL), 2);
    assert_said("tool: pairs are red\n");
    assert_int_equal(parse(&v, "--pair", "a", "b", NULL), -1);
}

static void suggests_names(void **state)
{
    struct values v;
    (void)state;
    assert_int_equal(nearest_distance("", ""), 0);
    assert_int_equal(nearest_distance("abc", ""), 3);
    assert_int_equal(nearest_distance("report", "reprot"), 1);
    assert_int_equal(nearest_distance("kitten", "sitting"), 3);
    char longest[100] = {0};
    memset(longest, 'a', sizeof longest - 1);
    assert_int_equal(nearest_distance(longest, "a"), NEAREST_MAX);
    assert_int_equal(parse(&v, "--coluor=red", NULL), 2);
    assert_said("tool: did you mean '--colour'?\n");
    assert_int_equal(parse(&v, "--something-else", NULL), 2);
    assert_null(strstr(output, "did you mean"));
    assert_int_equal(parse(&v, "--p", NULL), 2); /* --pair, --port or --percent */
    assert_null(strstr(output, "did you mean"));
    assert_int_equal(parse(&v, longest, NULL), -1);
}

static void prints_help(void **state)
{
    struct values v;
    (void)state;
    assert_int_equal(parse(&v, "-h", NULL), 0);
    assert_said("usage: tool [OPTIONS]\n\n  -g, --flag          sets\n");
    assert_said("  -w N                a wide number\n");
    assert_said("      --percent[=PCT] a share\n");
    assert_said("one of red, green or blue;");
    assert_said(" (green)\n");
    assert_said("\nInside:\n      --bytes SIZE    a size\n");
    assert_said("\n\nThe end.\n");
    assert_null(strstr(output, "--old"));
    for (const char *l = output; *l; l += strcspn(l, "\n") + 1)
        assert_true(strcspn(l, "\n") <= 90);
}

static void completes(void **state)
{
    struct values v;
    (void)state;
    assert_int_equal(parse(&v, "--complete", "--c", NULL), 0);
    assert_int_equal(strncmp(output, "--clear\tclears\n--colour\tone of red", 33), 0);
    assert_said("--count\ta number\n");
    assert_null(strstr(output, "--text"));
    assert_int_equal(parse(&v, "--complete", "x", "--colour", "", NULL), 0);
    assert_string_equal(output, "red\ngreen\nblue\n");
    parse(&v, "--complete", "--colour", "=", "r", NULL);
    assert_string_equal(output, "red\ngreen\nblue\n");
    parse(&v, "--complete", "--colour=", NULL);
    assert_string_equal(output, "--colour=red\n--colour=green\n--colour=blue\n");
    parse(&v, "--complete", "--nothing=", NULL);
    assert_string_equal(output, "");
    parse(&v, "--complete", "-t", "", NULL);
    assert_string_equal(output, "");
    parse(&v, "--complete", "--flag", "", NULL);
    assert_string_equal(output, "start\nstop\n");
    parse(&v, "--complete", "--", "-", NULL);
    assert_string_equal(output, "");
    assert_int_equal(parse(&v, "--complete", NULL), 0);
}

/* VALUE_WORD stores the index of a word: the enums have the order of the words. */
static void words_have_the_order_of_enums(void **state)
{
    const struct option_row *by = tree_rows, *metric = tree_rows;
    (void)state;
    while (strcmp(by->name, "--by") != 0)
        by++;
    while (strcmp(metric->name, "--metric") != 0)
        metric++;
    for (int i = 0; i <= TREE_TYPE; i++)
        assert_int_equal(option_word_index(by->words, tree_by_name((enum tree_by)i)), i);
    for (int i = 0; i < TREE_METRICS; i++)
        assert_int_equal(option_word_index(metric->words, tree_metric_name((enum tree_metric)i)),
                         i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_values),
        cmocka_unit_test(rejects_values),
        cmocka_unit_test(keeps_rules),
        cmocka_unit_test(suggests_names),
        cmocka_unit_test(prints_help),
        cmocka_unit_test(completes),
        cmocka_unit_test(words_have_the_order_of_enums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
