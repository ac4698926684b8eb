#ifndef TIDEMARK_CLIENT_API_H
#define TIDEMARK_CLIENT_API_H

#include "client/state.h"

/*
 * A recording begins. In a child of fork its parent's pools keep their numbers, which the program
 * may have kept, so the names are recorded again.
 */
void api_begin(struct thread *t);

#endif
