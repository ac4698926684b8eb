#include "report/junit.h"

#include "report/write/markup.h"

static void put_case(struct buf *b, const struct summary_check *c)
{
    buf_puts(b, "  <testcase classname=\"memory\" name=\"");
    markup_xml(b, view_of(c->expression ? c->expression : c->name));
    buf_puts(b, "\">\n");
    if (!c->holds) {
        buf_puts(b, "   <failure message=\"");
        markup_xml(b, view_of(c->detail));
        buf_puts(b, "\"/>\n");
    } else {
        buf_puts(b, "   <system-out>");
        markup_xml(b, view_of(c->detail));
        buf_puts(b, "</system-out>\n");
    }
    buf_puts(b, "  </testcase>\n");
}

void junit_write(struct buf *b, const char *suite, const struct summary_check *checks, size_t n,
                 bool expressions)
{
    size_t all = 0;
    size_t failed = 0;
    for (size_t i = 0; i < n; i++) {
        bool counts = !expressions || checks[i].expression;
        all += counts;
        failed += counts && !checks[i].holds;
    }
    buf_printf(b,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<testsuites>\n <testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" "
               "errors=\"0\" skipped=\"0\">\n",
               suite, all, failed);
    for (size_t i = 0; i < n; i++) {
        if (!expressions || checks[i].expression)
            put_case(b, &checks[i]);
    }
    buf_puts(b, " </testsuite>\n</testsuites>\n");
}
