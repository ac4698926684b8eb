/* Expressions for budgets: what is taken, what is refused and how, and what they come to. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/questions/budget.h"
#include "analysis/questions/budget_summary.h"
#include "base/buf.h"
#include "test/unit/analysis_fixture.h"

/* Figures of a trace with a base: 100 of everything before, 110 now; 1 % of it is parse's. */
static double figure(void *ctx, const struct budget_term *t, enum budget_side side)
{
    (void)ctx;
    const struct budget_names parse = {.pool = view_of("default"),
                                       .site = view_of("json::parse(int)"),
                                       .file = view_of("/src/json.cpp"),
                                       .image = view_of("/bin/tool")};
    if (!budget_term_takes(t, &parse, UINT32_MAX))
        return 0;
    if (t->metric == BUDGET_FAULTS)
        return side == BUDGET_BASE ? 0 : 2;
    if (t->metric == BUDGET_TEMPORARY)
        return 0;
    return side == BUDGET_BASE ? 100 : 110;
}

static bool holds(const char *text)
{
    struct budget b;
    struct err e = {0};
    struct buf why = {0};
    if (budget_parse(&b, text, &e) != 0)
        fail_msg("%s", e.text);
    bool result = budget_holds(&b, figure, NULL, &why);
    assert_false(why.failed);
    assert_true(why.len > 0);
    buf_release(&why);
    budget_release(&b);
    return result;
}

static void test_comparisons(void **state)
{
    (void)state;
    assert_true(holds("peak>109"));
    assert_false(holds("peak>110"));
    assert_true(holds("peak>=110"));
    assert_true(holds("peak<111"));
    assert_false(holds("peak<=109"));
    assert_true(holds(" total = 110 "));
    assert_true(holds("count==110"));
    assert_false(holds("live!=110"));
    assert_true(holds("leaked<1K"));
    assert_true(holds("leaked < 0.2 KiB"));
    assert_true(holds("largest<1 GB"));
    assert_true(holds("leaked_count>1.5"));
}

static void test_changes(void **state)
{
    (void)state;
    assert_true(holds("peak>+5%"));
    assert_true(holds("peak>=+10%"));
    assert_false(holds("peak>+10%"));
    assert_true(holds("peak>+9"));
    assert_false(holds("peak<-1%"));
    assert_true(holds("faults>+1000000%")); /* from nothing to something */
    assert_false(holds("temporary>+0%"));
    assert_true(holds("temporary=+0"));
}

static void test_selectors(void **state)
{
    (void)state;
    assert_true(holds("count(site=~\"parse\")>100"));
    assert_false(holds("count(site=~\"^parse\")>100"));
    assert_true(holds("count(site=\"json::parse(int)\")>100"));
    assert_false(holds("count(site=\"parse\")>100"));
    assert_true(holds("count(site!=\"parse\", pool=\"default\")>100"));
    assert_false(holds("count(file!~\"json\")>100"));
    assert_true(holds("count(file=~\"json\\\\.cpp$\", image=~\"tool\")>100"));
    assert_false(holds("count(pool=\"gpu\")>0"));
    assert_true(holds("peak(site==\"json::parse(int)\")>100"));
}

static void test_logic(void **state)
{
    (void)state;
    assert_true(holds("peak>1 and count>1"));
    assert_false(holds("peak>1 && count<1"));
    assert_true(holds("peak<1 or count>1"));
    assert_true(holds("peak>1 || count>1 and total<1")); /* and binds closer */
    assert_false(holds("(peak>1 or count>1) and total<1"));
    assert_true(holds("not peak<1"));
    assert_true(holds("!(peak<1)"));
    assert_false(holds("not not peak<1"));
    assert_true(holds("not peak<1 and count>1"));
    assert_true(holds("((((peak>1))))"));
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "ends where peak, leaked"},
        {"peak", "ends where a comparison"},
        {"peak>", "ends where a number"},
        {"peak>x", "a number is expected, not 'x'"},
        {"peak>1Q", "K, M, G, T or % is expected"},
        {"peak>1 count>2", "'and', 'or' or the end is expected, not 'count>2'"},
        {"peak>5%", "it has a sign"},
        {"speed>5", "is expected, not 'speed>5'"},
        {"count(site)>1", "=, !=, =~ or !~ is expected"},
        {"count(name=\"x\")>1", "pool, site, file or image is expected"},
        {"count(site=x)>1", "a text in double quotes"},
        {"count(site=\"x)>1", "a text has no end"},
        {"count(site=~\"(\")>1", "no regular expression"},
        {"count(site=\"x\">1", "',' or ')' is expected"},
        {"(peak>1", "ends where ')'"},
        {"peak>1..2", "a number is expected"},
        {"peak>nan", "a number is expected"},
        {"peak>0x10", "K, M, G, T or % is expected"},
        {"count(site=~\"(x{200}){200}{200}\")>1", "no regular expression"},
        {"count(site=~\"x+++++++++++++++++\")>1", "no regular expression"},
        {"faults(site=\"x\")>1", "by pool only"},
        {"peaks>1", "is expected, not 'peaks>1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct budget b;
        struct err e = {0};
        assert_int_equal(budget_parse(&b, cases[i][0], &e), -1);
        assert_int_equal(e.code, ERR_USAGE);
        if (!strstr(e.text, cases[i][1]))
            fail_msg("'%s' is refused with: %s", cases[i][0], e.text);
    }
    char deep[400] = "";
    struct budget b;
    struct err e = {0};
    memset(deep, '(', 200);
    assert_int_equal(budget_parse(&b, deep, &e), -1);
    assert_non_null(strstr(e.text, "brackets"));
}

/* The words that explain an outcome, and figures of a real summary. */
static void check_resident(struct fixture *f, struct summary *s, const char *text, bool holds)
{
    struct budget budget;
    bool ok;
    assert_int_equal(budget_parse(&budget, text, &f->e), 0);
    assert_int_equal(budget_summary_check(s, &budget, "expect", true, &ok, &f->e), 0);
    if (ok != holds)
        fail_msg("%s", s->checks.at[s->checks.len - 1].detail);
    budget_release(&budget);
}

static void test_summaries(void **state)
{
    (void)state;
    struct fixture f;
    struct summary s;
    bool ok;
    fixture_init(&f);
    uint32_t gpu = fixture_pool(&f, 0x10, "gpu");
    uint32_t a = fixture_stack(&f, 0x10, "parse", "a.c", 1);
    uint32_t b = fixture_stack(&f, 0x20, "draw", "b.c", 2);
    fixture_alloc(&f, 0, 0x100, 100, a);
    fixture_alloc(&f, 0, 0x200, 300, b);
    fixture_free(&f, 0, 0x200, 0);
    fixture_alloc(&f, gpu, 0x100, 1000, b);
    fixture_free(&f, gpu, 0x900, b); /* a fault */
    static const struct summary_options options = {.by = GROUP_SITE};
    assert_int_equal(summary_build(&s, &f.trace, &options, &f.e), 0);
    static const struct {
        const char *text;
        bool holds;
    } cases[] = {
        {"peak=1000", true},
        {"peak(pool=\"default\")=400", true},
        {"total=1400", true},
        {"count=3 and leaked_count=2", true},
        {"leaked=1100", true},
        {"leaked(site=~\"draw\")=1000", true},
        {"count(file=\"b.c\")=2", true},
        {"count(file=\"b.c\", pool=\"gpu\")=1", true},
        {"temporary=1", true},
        {"largest=1000", true},
        {"largest(pool=\"default\")=300", true},
        {"faults=1", true},
        {"faults(pool=\"default\")=0", true},
        {"peak(site=\"parse\")=100", true},
        {"peak(site=\"draw\")=1300", true},
        {"count(site=\"x\")>0", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct budget budget;
        assert_int_equal(budget_parse(&budget, cases[i].text, &f.e), 0);
        assert_int_equal(budget_summary_check(&s, &budget, "expect", true, &ok, &f.e), 0);
        if (ok != cases[i].holds)
            fail_msg("%s", s.checks.at[s.checks.len - 1].detail);
        budget_release(&budget);
    }
    struct budget budget;
    assert_int_equal(budget_parse(&budget, "peak>1K or leaked(site=~\"p\")>0", &f.e), 0);
    assert_int_equal(budget_summary_check(&s, &budget, "fail-if", false, &ok, &f.e), 0);
    assert_false(ok);
    assert_string_equal(s.checks.at[s.checks.len - 1].detail,
                        "peak>1K or leaked(site=~\"p\")>0: peak is 1000 bytes, "
                        "leaked(site=~\"p\") is 100 bytes");
    budget_release(&budget);
    assert_false(s.checks.at[s.checks.len - 1].unmatched);
    /* Of a name that nothing has, the figure is 0; that is said. */
    assert_int_equal(budget_parse(&budget,
                                  "peak(pool=\"gpu\", site=~\"drow\")>0 or "
                                  "count(pool=\"cpu\")>0 or count(pool!=\"x\")>9",
                                  &f.e),
                     0);
    assert_int_equal(budget_summary_check(&s, &budget, "fail-if", false, &ok, &f.e), 0);
    assert_true(ok);
    assert_true(s.checks.at[s.checks.len - 1].unmatched);
    assert_non_null(strstr(s.checks.at[s.checks.len - 1].detail,
                           "is 3; nothing matches site=~\"drow\"; nothing matches pool=\"cpu\" "
                           "(pools: default, gpu)"));
    budget_release(&budget);
    /* Without a look, what is resident is unknown, which is within no budget. */
    assert_int_equal(budget_parse(&budget, "resident>1 or peak>1G", &f.e), 0);
    assert_int_equal(budget_summary_check(&s, &budget, "fail-if", false, &ok, &f.e), 0);
    assert_false(ok);
    assert_non_null(strstr(s.checks.at[s.checks.len - 1].detail, "resident is unknown"));
    budget_release(&budget);
    s.has_look = true;
    s.look_bytes = 5000;
    check_resident(&f, &s, "resident=5000", true);
    check_resident(&f, &s, "resident(site=~\"draw\")<1M", false);
    s.has_resident = true;
    for (size_t i = 0; i < s.sites.len; i++)
        s.sites.at[i].resident_bytes = s.sites.at[i].figures.bytes;
    check_resident(&f, &s, "resident(pool=~\".\")=1400", true);
    check_resident(&f, &s, "resident(site=~\"draw\")=1300", true);
    summary_release(&s);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_selectors),   cmocka_unit_test(test_logic),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
