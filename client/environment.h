#ifndef TIDEMARK_CLIENT_ENVIRONMENT_H
#define TIDEMARK_CLIENT_ENVIRONMENT_H

/* What `tidemark run` put into the environment, and putting it back in order. */

/* Takes the values over into the state; the environment may not be set up yet. */
void environment_read(void);

/* Takes our variables, and our entry of LD_PRELOAD, out of an environment, in place. */
void environment_clean(char **environment);

#endif
