#include "cli/cmd_report_review.h"

#include <string.h>

#include "report/junit.h"
#include "report/markdown.h"
#include "report/write/document.h"

enum review_form review_form_parse(const char *text)
{
    return strcmp(text, "markdown") == 0 ? REVIEW_MARKDOWN
           : strcmp(text, "junit") == 0  ? REVIEW_JUNIT
                                         : REVIEW_NONE;
}

static int write_markdown(const struct review *r, const struct summary *s, struct trace *t,
                          FILE *out, struct err *e)
{
    const struct markdown_options options = {.sort = r->sort, .limit = r->limit};
    struct selection only;
    struct leaks leaks;
    struct suppressions suppress = {.all_leaks = r->all_leaks};
    /* Blocks that are live at a time may still be freed later, so they are not leaks. */
    if (r->only->has_at)
        return markdown_write(s, NULL, NULL, &options, out, e);
    if (selection_init(&only, t, r->only, e) != 0)
        return -1;
    int status = leaks_build(&leaks, &only, r->skip, &suppress, e);
    if (status == 0) {
        status = markdown_write(s, &leaks, &only, &options, out, e);
        leaks_release(&leaks);
    }
    suppressions_release(&suppress);
    selection_release(&only);
    return status;
}

int review_write(const struct review *r, const struct summary *s, struct trace *t, FILE *out,
                 struct err *e)
{
    if (r->form == REVIEW_MARKDOWN)
        return write_markdown(r, s, t, out, e);
    struct document doc = document_begin(out);
    junit_write(&doc.buf, "tidemark report", s->checks.at, s->checks.len, true);
    return document_end(&doc, e);
}
