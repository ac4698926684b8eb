/*
 * tidemark capture, and the drop-in for tracy-capture: one client to one trace, then its memory
 * summary.
 */

#include "cli/commands.h"
#include "cli/options/parse_capture.h"
#include "run/preload.h"
#include "server/capture/capture_run.h"

static int capture_main(int argc, char **argv, bool drop_in, int channel, int sampler)
{
    struct capture c;
    capture_init(&c, channel);
    int status = capture_options_parse(&c.o, drop_in, argc, argv);
    c.terminal &= !c.o.quiet;
    if (drop_in && channel < 0 && !c.o.memory_asked)
        c.o.session.memory_hz = 0;
    c.o.session.no_resident |= drop_in && (channel < 0 || !c.o.session.memory_hz);
    if (sampler >= 0)
        c.o.session.sampler = &sampler;
    if (status < 0) {
        preload_drop(!drop_in, argv, c.o.unwanted.at, c.o.unwanted.len);
        status = capture_run(&c);
    }
    capture_release(&c);
    capture_options_release(&c.o);
    return status;
}

int cmd_capture(int argc, char **argv)
{
    return capture_main(argc, argv, false, -1, -1);
}

int cmd_capture_drop_in(int argc, char **argv)
{
    return capture_main(argc, argv, true, -1, -1);
}

int cmd_capture_session(int argc, char **argv, int channel, int sampler)
{
    return capture_main(argc, argv, true, channel, sampler);
}
