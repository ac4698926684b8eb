#pragma once

/*
 * The line information of one module (C13): rows, files, and where inlined functions begin. The
 * input is untrusted; memory is proportional to it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "symbols/pdb/pdb_file.h"

/* The line from `address` to the next row; with `end` none is known from there on. */
struct pdb_line {
    uint64_t address;
    uint32_t file; /* index in `files` + 1; 0: unknown */
    uint32_t line;
    uint32_t order; /* among rows at the same address */
    uint16_t column;
    bool end;
};

/* Where an inlined function is defined. */
struct pdb_inlinee {
    uint32_t file; /* as above */
    uint32_t line;
};

struct pdb_lines {
    VEC(struct pdb_line) rows; /* sorted by address; at one address an end comes first */
    VEC(const char *) files;   /* paths; the PDB file has the texts */
    VEC(struct pdb_inlinee) inlinees;
    struct map file_at;    /* by position in the checksums: index in `files` + 1 */
    struct map inlinee_of; /* by number in the IPI stream: index in `inlinees` + 1 */
    bool damaged;          /* some of it could not be read */
};

/* Reads the subsections of a module's stream. False if memory is short. */
bool pdb_lines_read(struct pdb_lines *l, const struct pdb_file *f, struct view bytes);
void pdb_lines_release(struct pdb_lines *l);

/* The file (index + 1) at a position of the checksums; 0: unknown. */
uint32_t pdb_lines_file(const struct pdb_lines *l, uint32_t position);
/* NULL if the function is not listed. */
const struct pdb_inlinee *pdb_lines_inlinee(const struct pdb_lines *l, uint32_t id);
