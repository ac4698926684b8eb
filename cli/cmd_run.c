/* tidemark run: runs an unmodified program and records its memory to a trace. */

#include <sys/stat.h>

#include "base/file_io.h"
#include "base/outfile.h"
#include "base/print_error.h"
#include "cli/commands.h"
#include "cli/options/parse_run.h"
#include "cli/run_repeat.h"
#include "run/run_program.h"
#include "run/run_recover.h"

/*
 * Before anything runs: a report that cannot be written costs no run, and the report of an earlier
 * run is not taken for this one's, whatever happens. It becomes an empty file.
 */
static int begin_report(const struct run_options *o, struct err *e)
{
    struct outfile out;
    struct stat st;
    if (!o->report_file || (stat(o->report_file, &st) == 0 && !S_ISREG(st.st_mode)))
        return 0;
    if (outfile_open(&out, o->report_file, o->replace, e) != 0)
        return -1;
    int status = file_is_there(o->report_file) ? outfile_commit(&out, e) : 0;
    outfile_abort(&out);
    return status;
}

static int run(struct run_options *o)
{
    struct err e = {0};
    if (begin_report(o, &e) != 0)
        return print_error(&e);
    return o->repeat ? run_repeat(o) : run_program(o);
}

int cmd_run(int argc, char **argv)
{
    struct run_options options = RUN_OPTIONS_EMPTY;
    int status = run_options_parse(&options, argc, argv);
    if (status < 0)
        status = options.recover ? run_recover(&options) : run(&options);
    run_options_release(&options);
    return status;
}
