/* The table of processes at the start of a report on several. */

#include "report/processes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "report/write/json_value.h"
#include "report/write/text_cells.h"

#define PROGRAM_WIDTH_MAX 40u

/* The column "Program"; if several processes share a trace, their number. */
static void put_program(struct buf *out, const struct report_process *p)
{
    char n[FORMAT_SIZE];
    if (p->program.len == 0)
        buf_printf(out, "%s", format_counted(n, p->count, "short process"));
    else
        format_terminal(out, p->program);
}

static size_t program_width(const struct report_options *o)
{
    size_t width = strlen("Program");
    for (size_t i = 0; i < o->process_count; i++) {
        struct buf b = {0};
        put_program(&b, &o->processes[i]);
        size_t w = format_width((struct view){buf_str(&b), b.len});
        width = w > width && w <= PROGRAM_WIDTH_MAX ? w : width;
        buf_release(&b);
    }
    return width;
}

void processes_text(struct buf *out, const struct report_options *o)
{
    size_t width = program_width(o);
    if (o->process_count == 0)
        return;
    buf_printf(out, "%10s  %-*s", "PID", (int)width, "Program");
    cell(out, "Peak", 9);
    cell(out, "Live size", 9);
    cell(out, "Events", 13);
    buf_puts(out, "  Trace\n");
    for (size_t i = 0; i < o->process_count; i++) {
        const struct report_process *p = &o->processes[i];
        char pid[24] = "-";
        if (p->pid)
            snprintf(pid, sizeof pid, "%" PRIu64, p->pid);
        buf_printf(out, "%10s  ", pid);
        size_t begin = out->len;
        put_program(out, p);
        size_t got =
            out->failed
                ? 0
                : format_width((struct view){(const char *)out->data + begin, out->len - begin});
        buf_printf(out, "%*s", got < width ? (int)(width - got) : 0, "");
        cell_bytes(out, p->peak_bytes, 9);
        cell_bytes(out, p->live_bytes, 9);
        cell_count(out, p->events, 13);
        buf_puts(out, "  ");
        format_terminal(out, p->trace);
        buf_puts(out, "\n");
    }
    buf_puts(out, "\n");
}

bool processes_json(struct buf *out, const struct report_options *o)
{
    bool ok = true;
    buf_puts(out, ",\n \"processes\": [");
    for (size_t i = 0; i < o->process_count; i++) {
        const struct report_process *p = &o->processes[i];
        buf_puts(out, i ? ",\n  " : "\n  ");
        ok &= json_put(out,
                       json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pid",
                                 p->pid ? json_count(p->pid) : json_null(), "processes",
                                 json_count(p->count), "program",
                                 p->program.len ? json_text(p->program) : json_null(), "peak_bytes",
                                 json_count(p->peak_bytes), "live_bytes", json_count(p->live_bytes),
                                 "events", json_count(p->events), "trace", json_text(p->trace)),
                       0);
    }
    buf_puts(out, "\n ]");
    return ok;
}
