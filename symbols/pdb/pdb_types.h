#pragma once

/*
 * Names of inlined functions: records of the IPI stream, with classes of the TPI stream. Nothing
 * else of the types is read. The input is untrusted. Immutable once read.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "symbols/pdb/pdb_file.h"

struct pdb_types;

/* Fails with ERR_MEMORY; a stream that cannot be read costs its names. */
int pdb_types_read(struct pdb_types **out, const struct pdb_file *f, struct err *e);

/* `t` may be NULL. */
void pdb_types_free(struct pdb_types *t);

/* Appends the name of a function by its number in the IPI stream. False if it has none. */
bool pdb_types_function(const struct pdb_types *t, uint32_t id, struct buf *out);
