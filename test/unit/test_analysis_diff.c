/* What changed between two traces, against sums over two plain lists; names that moved. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/diff/diff.h"
#include "analysis/diff/diff_lines.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"

static void check_plain(const char *name, const char *plain)
{
    struct view got = diff_plain_name(view_of(name));
    if (!view_equal(got, view_of(plain)))
        fail_msg("'%s' became '%.*s'", name, (int)got.len, got.p);
}

static void test_plain_names(void **state)
{
    (void)state;
    check_plain("main", "main");
    check_plain("parse.constprop.0", "parse");
    check_plain("parse.isra.12.part.3", "parse");
    check_plain("parse.cold", "parse");
    check_plain("parse.part.0.cold", "parse");
    check_plain("parse.lto_priv.7", "parse");
    check_plain("f.llvm.1234567890", "f");
    check_plain("f(int) [clone .isra.0]", "f(int)");
    check_plain("f(int) [clone .isra.0] [clone .cold]", "f(int)");
    check_plain("core::ptr::drop::h0123456789abcdef", "core::ptr::drop");
    check_plain("core::ptr::drop::h0123456789abcdeg", "core::ptr::drop::h0123456789abcdeg");
    check_plain("a.0", "a.0");
    check_plain(".cold", ".cold");
    check_plain(".isra.0", ".isra.0");
    check_plain(" [clone .x]", " [clone .x]");
    check_plain("v1.2", "v1.2");
    check_plain("", "");
}

/* ---- against lists */

#define PATH_SIZE 1024

struct row {
    bool twin;
    char path[PATH_SIZE];
    struct counter figures[2];
};

struct oracle {
    VEC(struct row) rows;
};

/* The names from the site on; of the site alone for rows by site. */
static void path_of(const struct rh_stack *s, enum diff_by by, char path[PATH_SIZE])
{
    size_t len = 0;
    bool inside = true;
    path[0] = 0;
    for (unsigned i = 0; i < s->n; i++) {
        bool allocator = strcmp(s->names[i], "malloc") == 0 || strncmp(s->names[i], "oper", 4) == 0;
        if (inside && allocator && i + 1 < s->n)
            continue;
        inside = false;
        len += (size_t)snprintf(path + len, PATH_SIZE - len, ">%s", s->names[i]);
        if (by == DIFF_SITE)
            return;
    }
}

static void sum_up(struct oracle *o, const struct random_history *h, int side, enum diff_by by)
{
    for (size_t i = 0; i < h->n; i++) {
        const struct rh_block *b = &h->blocks[i];
        struct row fresh = {.twin = b->pool != 0};
        path_of(&h->stacks[b->stack], by, fresh.path);
        size_t at = 0;
        while (at < o->rows.len &&
               (o->rows.at[at].twin != fresh.twin || strcmp(o->rows.at[at].path, fresh.path) != 0))
            at++;
        if (at == o->rows.len)
            assert_true(vec_push(&o->rows, fresh));
        struct counter *c = &o->rows.at[at].figures[side];
        c->count++;
        c->bytes += b->size;
        c->live_count += b->end == INT64_MAX;
        c->live_bytes += b->end == INT64_MAX ? b->size : 0;
    }
}

static const struct row *find_row(const struct oracle *o, const struct diff_row *r)
{
    const struct row *found = NULL;
    for (size_t i = 0; i < o->rows.len; i++) {
        const struct row *row = &o->rows.at[i];
        bool same = row->twin == view_equal(r->pool, view_of("twin"));
        for (int side = 0; side < 2; side++) {
            same &= row->figures[side].count == r->side[side].figures.count &&
                    row->figures[side].bytes == r->side[side].figures.bytes &&
                    row->figures[side].live_count == r->side[side].figures.live_count &&
                    row->figures[side].live_bytes == r->side[side].figures.live_bytes;
        }
        /* The site is the first name of the way. */
        const char *name = row->path[0] ? row->path + 1 : "";
        same &= strncmp(name, r->frame.function.p, r->frame.function.len) == 0;
        if (same)
            found = row;
    }
    return found;
}

static enum diff_kind kind_of(const struct row *r)
{
    if (r->figures[0].count == 0)
        return DIFF_NEW;
    if (r->figures[1].count == 0)
        return DIFF_GONE;
    if (r->figures[0].bytes == r->figures[1].bytes)
        return DIFF_SAME;
    return r->figures[1].bytes > r->figures[0].bytes ? DIFF_GROWN : DIFF_SHRUNK;
}

static void test_random(void **state)
{
    (void)state;
    static struct random_history h[2];
    static const struct selection_options all = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct err e = {0};
        struct selection s[2];
        struct diff d;
        struct oracle o = {0};
        const struct diff_options options = {.by = seed & 1 ? DIFF_SITE : DIFF_CALLSTACK};
        uint64_t want[DIFF_KINDS] = {0};
        for (int side = 0; side < 2; side++) {
            rh_make(&h[side], seed + (unsigned)side * 100);
            assert_int_equal(selection_init(&s[side], &h[side].trace, &all, &e), 0);
            sum_up(&o, &h[side], side, options.by);
        }
        assert_int_equal(diff_build(&d, &s[0], &s[1], &options, &e), 0);
        for (size_t i = 0; i < o.rows.len; i++)
            want[kind_of(&o.rows.at[i])]++;
        for (int k = 0; k < DIFF_KINDS; k++)
            assert_int_equal(d.count[k], want[k]);
        assert_int_equal(d.rows.len + d.same, o.rows.len);
        for (size_t i = 0; i < d.rows.len; i++) {
            const struct row *row = find_row(&o, &d.rows.at[i]);
            assert_non_null(row);
            assert_int_equal(d.rows.at[i].kind, kind_of(row));
            assert_true(i == 0 || d.rows.at[i - 1].kind <= d.rows.at[i].kind);
        }
        assert_int_equal(d.pools.len, 2);
        diff_release(&d);
        for (int side = 0; side < 2; side++) {
            selection_release(&s[side]);
            rh_release(&h[side]);
        }
        vec_release(&o.rows);
    }
}

/* ---- what moved, what is new */

static void make(struct fixture *f, bool now)
{
    fixture_init(f);
    uint32_t moved = now ? fixture_stack(f, 0x9000, "moved.constprop.0", "/new/a.c", 70)
                         : fixture_stack(f, 0x1000, "moved", "/old/place/a.c", 7);
    uint32_t other = fixture_stack(f, 0x2000, "same name", now ? "b.c" : "c.c", 1);
    uint32_t gone = fixture_stack(f, 0x3000, now ? "came" : "gone", "d.c", 1);
    uint32_t pool = fixture_pool(f, 0x10, now ? "fresh pool" : "old pool");
    fixture_alloc(f, 0, 0x100, now ? 150 : 100, moved);
    fixture_alloc(f, 0, 0x200, 10, other);
    fixture_alloc(f, 0, 0x300, 10, gone);
    fixture_alloc(f, 0, 0x400, 5, 0);
    fixture_alloc(f, pool, 0x400, 1, moved);
}

static void test_moves(void **state)
{
    (void)state;
    struct fixture f[2];
    struct selection s[2];
    struct diff d;
    static const struct selection_options all = {0};
    static const struct diff_options options = {.metric = DIFF_LIVE};
    for (int side = 0; side < 2; side++) {
        make(&f[side], side);
        assert_int_equal(selection_init(&s[side], &f[side].trace, &all, &f[side].e), 0);
    }
    assert_int_equal(diff_build(&d, &s[0], &s[1], &options, &f[0].e), 0);
    /* New: came, the name in another file, the fresh pool. Gone: their counterparts. */
    assert_int_equal(d.count[DIFF_NEW], 3);
    assert_int_equal(d.count[DIFF_GONE], 3);
    assert_int_equal(d.count[DIFF_GROWN], 1);
    assert_int_equal(d.same, 1); /* what has no call stack */
    const struct diff_row *grown = &d.rows.at[3];
    assert_int_equal(grown->kind, DIFF_GROWN);
    assert_true(view_equal(grown->frame.file, view_of("/new/a.c")));
    assert_int_equal(diff_figure(&grown->side[0], DIFF_LIVE), 100);
    assert_int_equal(diff_figure(&grown->side[1], DIFF_LIVE), 150);
    assert_int_not_equal(grown->side[0].callstack, 0);
    assert_int_equal(d.pools.len, 3);
    diff_release(&d);
    for (int side = 0; side < 2; side++) {
        selection_release(&s[side]);
        fixture_release(&f[side]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_names),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
