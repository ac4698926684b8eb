#pragma once

/* Units of a PDB file: its modules. The counterpart of index_walk.h and of a DWARF back end. */

#include "symbols/index/index_build.h"

/* Prepares the build; b->pdb is set. */
int index_pdb_init(struct index_build *b, struct err *e);

/* Adds the modules as units, with the code that they contributed. */
int index_pdb_scan(struct index_build *b, struct err *e);

/* The size of a module in bytes, to begin with large ones. */
uint64_t index_pdb_size(const struct index_build *b, uint64_t module);

/* Walks the functions and lines of a module. Sets maker->fault on unreadable data. */
void index_pdb_walk(const struct index_build *b, struct unit_walk *w, uint64_t module);
