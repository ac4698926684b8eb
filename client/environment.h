#ifndef TIDEMARK_CLIENT_ENVIRONMENT_H
#define TIDEMARK_CLIENT_ENVIRONMENT_H

/* What `tidemark run` put into the environment, and putting it back in order. */

/* Takes the values over into the state; the environment may not be set up yet. */
void environment_read(void);

/* Takes our variables, and our entry of LD_PRELOAD, out of an environment, in place. */
void environment_clean(char **environment);

/*
 * An environment for exec that has our variables (again), in memory that `environment_drop` gives
 * back. NULL: no memory, which header.bare_execs counts, or nothing to add: exec is then called
 * with `environment` itself.
 */
char **environment_with(char *const *environment);
void environment_drop(char **made);

#endif
