#pragma once

/* The state of one `tidemark run`, for run_program.c and run_end.c. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/launch.h"
#include "run/program.h"
#include "run/run_attach.h"
#include "run/run_environment.h"
#include "run/run_offers.h"
#include "run/run_options.h"
#include "run/run_record.h"
#include "run/run_trace.h"
#include "run/run_tree.h"

#define EXIT_NO_OUTPUT 4

struct run {
    struct run_options *options;
    struct program program;
    struct launch launch;
    struct collector *collector;
    struct run_traces traces;
    struct run_tree tree;
    struct run_offers offers;
    struct run_environment environment;
    struct run_attach attach;
    char *library; /* for it */
    char *output;  /* the trace */
    char *spool;
    pid_t pid;
    uint64_t began, ended; /* ns */
    bool told;             /* an adopted process knows the socket */
    bool settled;          /* there will be a trace */
    bool listens;          /* servers may connect */
    /* How much of the machine the program takes, to leave it that. */
    int processors;
    uint64_t measured, used; /* when, and its processor time until then, in ns */
    bool busy;
    size_t looked; /* times of options.looks that have passed */
    unsigned looks_asked;
};

/*
 * Saves the traces when the program has ended, prints the report and reports what is missing and
 * why. Returns the exit status if the program itself ended well.
 */
int run_finish(struct run *r);
