/*
 * tidemark daemon, and the drop-in for tracy-capture-daemon: finds clients and captures every one
 * that matches, each in its own process and to its own trace.
 */

#include "cli/commands.h"
#include "cli/options/parse_daemon.h"
#include "run/preload.h"
#include "server/daemon/daemon.h"

static int daemon_main(int argc, char **argv, bool drop_in)
{
    static const struct child_commands commands = {
        .capture = cmd_capture_session, .report = cmd_report, .push = cmd_push};
    struct daemon d;
    daemon_init(&d, &commands, drop_in);
    int status = daemon_parse(&d, argc, argv);
    if (status < 0) {
        if (d.terminal)
            daemon_hand_on(&d, "--progress", "0.5");
        preload_drop(!drop_in, argv, NULL, 0);
        status = daemon_run(&d);
    }
    daemon_release(&d);
    return status;
}

int cmd_daemon(int argc, char **argv)
{
    return daemon_main(argc, argv, false);
}

int cmd_daemon_drop_in(int argc, char **argv)
{
    return daemon_main(argc, argv, true);
}
