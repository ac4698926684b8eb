#pragma once

/* Removes the variables of `tidemark run` from the environment, and adds them again for exec. */

/* Copies the values into the state; works before the environment is set up. */
void environment_read(void);

/* Removes Tidemark's variables, and its entry of LD_PRELOAD, from an environment, in place. */
void environment_clean(char **environment);

/*
 * An environment for exec that has Tidemark's variables (again), in memory that `environment_drop`
 * frees. NULL: no memory, which header.bare_execs counts, or nothing to add: exec then gets
 * `environment` itself.
 */
char **environment_with(char *const *environment);
void environment_drop(char **made);
