/* tidemark run: runs an unmodified program and records its memory to a trace. */

#include "cli/commands.h"
#include "cli/options/parse_run.h"
#include "cli/run_repeat.h"
#include "run/run_program.h"
#include "run/run_recover.h"

int cmd_run(int argc, char **argv)
{
    struct run_options options = RUN_OPTIONS_EMPTY;
    int status = run_options_parse(&options, argc, argv);
    if (status < 0)
        status = options.recover  ? run_recover(&options)
                 : options.repeat ? run_repeat(&options)
                                  : run_program(&options);
    run_options_release(&options);
    return status;
}
