#include "run/run_why.h"

#include "base/format.h"
#include "run/program.h"

#define LIMITS "a limit on its memory (RLIMIT_DATA, RLIMIT_AS), perhaps"

bool run_why_memory(const struct rec_header *h, struct buf *out)
{
    char n[FORMAT_SIZE];
    if (h->lost[REC_LOSS_MEMORY].allocations) {
        buf_puts(out, "had no memory to spare for its recording: " LIMITS);
        return true;
    }
    if (h->failed_allocations)
        buf_printf(out, "had %s: " LIMITS,
                   format_counted(n, h->failed_allocations, "failed allocation"));
    return h->failed_allocations;
}

/* Appends a reason from the recording's header: a phrase that follows the program's name. */
static bool explain_recording(const struct run_process *p, struct buf *out)
{
    struct rec_header h;
    struct err e;
    if (recording_read_header(p->collected->fd, &h, &e) != 0)
        buf_puts(out, "ended before its first allocation, or had no room for its recording: a "
                      "limit on the size of files, perhaps");
    else if (h.state == REC_STATE_FULL)
        buf_puts(out, "had no room for its recording: a limit on the size of files, perhaps");
    else if (!run_why_memory(&h, out)) {
        buf_puts(out, "called none of the functions that are watched");
        return false;
    }
    return true;
}

bool run_why_nothing(const struct run_process *p, struct buf *out)
{
    struct program program = {0};
    struct err e;
    bool told = true;
    format_terminal(out, view_of(p->collected->hello.exe));
    buf_puts(out, " ");
    if (program_find(&program, p->collected->hello.exe, &e) == 0 &&
        program.obstacle != PROGRAM_FINE && program.obstacle != PROGRAM_UNKNOWN)
        program_explain(&program, out);
    else
        told = explain_recording(p, out);
    program_release(&program);
    return told;
}
