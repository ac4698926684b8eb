/* The stream of events: what who listens puts together is always how things stand. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/daemon/daemon.h"
#include "server/daemon/daemon_http.h"

#define SECOND 1000000000LL
#define CLIENTS 6u

/* ---- what the stream asks of others */

struct http_exchange {
    bool changes;     /* it asked for these */
    bool full;        /* it takes no event now */
    bool streams;     /* it was answered so */
    unsigned refused; /* with this status */
    struct buf last;  /* event */
    unsigned wholes, events;
};

bool http_has_argument(const struct http_exchange *x, const char *name)
{
    return x->changes && strcmp(name, "changes") == 0;
}

void http_stream(struct http_exchange *x)
{
    x->streams = true;
}

void http_refuse(struct http_exchange *x, unsigned status, const char *why)
{
    (void)why;
    x->refused = status;
}

bool http_push(struct http_exchange *x, struct http_event *event)
{
    if (x->full)
        return false;
    buf_clear(&x->last);
    buf_put(&x->last, event->text.data, event->text.len);
    x->events++;
    x->wholes += strncmp(buf_str(&x->last), "event: status\n", 14) == 0;
    return true;
}

json_t *daemon_client_json(const struct daemon *d, const struct capture *one)
{
    (void)d;
    return json_pack("{s:i, s:I}", "number", (int)one->number, "disk", (json_int_t)one->disk);
}

json_t *daemon_self_json(const struct daemon *d)
{
    return json_pack("{s:i}", "running", (int)d->captures.running);
}

/* ---- a daemon */

struct fixture {
    struct daemon d;
    struct capture captures[CLIENTS];
    long long now;
};

static void listed(struct fixture *f, unsigned from, unsigned to)
{
    f->d.captures.list.len = 0;
    for (unsigned i = from; i < to; i++)
        assert_true(vec_push(&f->d.captures.list, &f->captures[i]));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.now = SECOND};
    for (unsigned i = 0; i < CLIENTS; i++)
        f->captures[i].number = i + 1;
    listed(f, 0, 4);
}

static void release(struct fixture *f)
{
    daemon_stream_release(&f->d);
    vec_release(&f->d.captures.list);
}

static void turn(struct fixture *f)
{
    f->now += SECOND;
    daemon_stream_turn(&f->d, f->now);
}

/* ---- what is told */

static const char changes[] = "event: changes\ndata: {\"running\":0,\"clients\":";
static const char status[] = "event: status\ndata: {\"running\":0,\"clients\":";

static void assert_told(struct http_exchange *x, const char *head, const char *clients)
{
    struct buf want = {0};
    buf_printf(&want, "%s%s}\n\n", head, clients);
    assert_string_equal(buf_str(&x->last), buf_str(&want));
    buf_release(&want);
}

static void test_of_who_is_as_before_the_number(void **state)
{
    struct fixture f;
    struct http_exchange x = {.changes = true};
    (void)state;
    setup(&f);
    listed(&f, 0, 2);
    daemon_stream_begin(&f.d, &x);
    turn(&f);
    assert_told(&x, status, "[{\"number\":1,\"disk\":0},{\"number\":2,\"disk\":0}]");
    turn(&f);
    assert_told(&x, changes, "[1,2]");
    f.captures[0].disk = 7;
    turn(&f);
    assert_told(&x, changes, "[{\"number\":1,\"disk\":7},2]");
    listed(&f, 0, 3);
    turn(&f);
    assert_told(&x, changes, "[1,2,{\"number\":3,\"disk\":0}]");
    listed(&f, 1, 3);
    turn(&f);
    assert_told(&x, changes, "[2,3]");
    listed(&f, 0, 0);
    turn(&f);
    assert_told(&x, changes, "[]");
    assert_int_equal(x.wholes, 1);
    buf_release(&x.last);
    release(&f);
}

static void test_who_asked_for_no_changes_gets_none(void **state)
{
    struct fixture f;
    struct http_exchange plain = {0}, x = {.changes = true};
    (void)state;
    setup(&f);
    listed(&f, 0, 1);
    daemon_stream_begin(&f.d, &plain);
    daemon_stream_begin(&f.d, &x);
    for (unsigned i = 0; i < 3; i++)
        turn(&f);
    assert_told(&plain, status, "[{\"number\":1,\"disk\":0}]");
    assert_told(&x, changes, "[1]");
    assert_int_equal(plain.wholes, 3);
    buf_release(&plain.last);
    buf_release(&x.last);
    release(&f);
}

static void test_who_missed_one_gets_the_whole(void **state)
{
    struct fixture f;
    struct http_exchange slow = {.changes = true}, quick = {.changes = true};
    (void)state;
    setup(&f);
    listed(&f, 0, 1);
    daemon_stream_begin(&f.d, &slow);
    daemon_stream_begin(&f.d, &quick);
    turn(&f);
    slow.full = true;
    f.captures[0].disk = 7;
    turn(&f);
    slow.full = false;
    turn(&f);
    assert_told(&quick, changes, "[1]");
    assert_told(&slow, status, "[{\"number\":1,\"disk\":7}]");
    turn(&f);
    assert_told(&slow, changes, "[1]");
    assert_int_equal(quick.wholes, 1);
    buf_release(&slow.last);
    buf_release(&quick.last);
    release(&f);
}

static void test_who_comes_later_gets_the_whole_at_once(void **state)
{
    struct fixture f;
    struct http_exchange first = {.changes = true}, second = {.changes = true};
    (void)state;
    setup(&f);
    listed(&f, 0, 1);
    daemon_stream_begin(&f.d, &first);
    turn(&f);
    daemon_stream_turn(&f.d, f.now + SECOND / 2);
    assert_int_equal(first.events, 1);
    daemon_stream_begin(&f.d, &second);
    f.now += SECOND / 2;
    daemon_stream_turn(&f.d, f.now);
    assert_told(&first, changes, "[1]");
    assert_told(&second, status, "[{\"number\":1,\"disk\":0}]");
    daemon_stream_over(&f.d, &first);
    turn(&f);
    assert_int_equal(first.events, 2);
    assert_told(&second, changes, "[1]");
    buf_release(&first.last);
    buf_release(&second.last);
    release(&f);
}

static void test_no_more_than_some_listen(void **state)
{
    struct fixture f;
    struct http_exchange many[33] = {0};
    (void)state;
    setup(&f);
    for (unsigned i = 0; i < 33; i++)
        daemon_stream_begin(&f.d, &many[i]);
    assert_true(many[31].streams);
    assert_int_equal(many[32].refused, 503);
    release(&f);
}

/* ---- at random: what is put together is what there is */

/* As a page does it. */
static void merge(json_t **have, struct http_exchange *x)
{
    const char *data = strstr(buf_str(&x->last), "data: ") + 6;
    json_t *said = json_loads(data, 0, NULL), *known, *one;
    json_t *clients = json_object_get(said, "clients");
    size_t i, k;
    assert_non_null(clients);
    for (i = 0; i < json_array_size(clients); i++) {
        if (!json_is_integer(json_array_get(clients, i)))
            continue;
        json_int_t number = json_integer_value(json_array_get(clients, i));
        known = NULL;
        json_array_foreach(*have, k, one)
        {
            if (json_integer_value(json_object_get(one, "number")) == number)
                known = one;
        }
        assert_non_null(known);
        assert_int_equal(json_array_set(clients, i, known), 0);
    }
    json_decref(*have);
    *have = json_incref(clients);
    json_decref(said);
}

static void assert_is_so(const struct fixture *f, const json_t *have)
{
    assert_int_equal(json_array_size(have), f->d.captures.list.len);
    for (size_t i = 0; i < f->d.captures.list.len; i++) {
        json_t *want = daemon_client_json(&f->d, f->d.captures.list.at[i]);
        assert_true(json_equal(want, json_array_get(have, i)));
        json_decref(want);
    }
}

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static void test_what_is_put_together_is_how_things_stand(void **state)
{
    struct fixture f;
    struct http_exchange x[3] = {{.changes = true}, {.changes = true}, {.changes = true}};
    json_t *have[3] = {json_array(), json_array(), json_array()};
    uint64_t seed = 1;
    (void)state;
    setup(&f);
    for (unsigned i = 0; i < 3; i++)
        daemon_stream_begin(&f.d, &x[i]);
    for (unsigned n = 0; n < 2000; n++) {
        unsigned from = (unsigned)draw(&seed, CLIENTS);
        if (draw(&seed, 3) == 0)
            listed(&f, from, from + (unsigned)draw(&seed, CLIENTS - from + 1));
        if (draw(&seed, 2) == 0)
            f.captures[draw(&seed, CLIENTS)].disk = draw(&seed, 3);
        for (unsigned i = 0; i < 3; i++)
            x[i].full = draw(&seed, 4) < i;
        turn(&f);
        for (unsigned i = 0; i < 3; i++) {
            if (x[i].full)
                continue;
            merge(&have[i], &x[i]);
            assert_is_so(&f, have[i]);
        }
    }
    assert_int_equal(x[0].wholes, 1);
    assert_true(x[1].wholes > 100 && x[1].wholes < x[1].events);
    for (unsigned i = 0; i < 3; i++) {
        json_decref(have[i]);
        buf_release(&x[i].last);
    }
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_who_is_as_before_the_number),
        cmocka_unit_test(test_who_asked_for_no_changes_gets_none),
        cmocka_unit_test(test_who_missed_one_gets_the_whole),
        cmocka_unit_test(test_who_comes_later_gets_the_whole_at_once),
        cmocka_unit_test(test_no_more_than_some_listen),
        cmocka_unit_test(test_what_is_put_together_is_how_things_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
