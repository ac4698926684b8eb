#pragma once

/*
 * Commands of the program that the daemon runs in child processes. Each takes a command line and
 * returns the exit status.
 */
struct child_commands {
    int (*capture)(int argc, char **argv, int channel,
                   int sampler); /* as channel.h and sampler.h define them */
    int (*report)(int argc, char **argv);
    int (*push)(int argc, char **argv);
};
