/* What the end of a capture means for the exit status of the daemon. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/daemon/captures.h"

static bool lost(enum capture_state state, int status, bool known)
{
    json_t *hello = known ? json_object() : NULL;
    bool is = captures_lost(&(struct capture){.state = state, .status = status, .hello = hello});
    json_decref(hello);
    return is;
}

static void a_saved_trace_may_lack_bytes(void **unused)
{
    (void)unused;
    assert_false(lost(CAPTURE_SAVED, 0, true));
    assert_false(lost(CAPTURE_SAVED, 1, true)); /* the client reported a fault */
    assert_false(lost(CAPTURE_SAVED, 3, true)); /* its bytes make no sense from somewhere on */
    assert_true(lost(CAPTURE_SAVED, 4, true));
    assert_true(lost(CAPTURE_SAVED, 128 + 9, true));
}

static void without_a_trace_the_client_counts(void **unused)
{
    (void)unused;
    assert_true(lost(CAPTURE_FAILED, 3, true));
    assert_true(lost(CAPTURE_FAILED, 4, false));
    assert_false(lost(CAPTURE_FAILED, 3, false)); /* it was gone before it said what it is */
    assert_false(lost(CAPTURE_REFUSED, 3, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_trace_may_lack_bytes),
        cmocka_unit_test(without_a_trace_the_client_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
