#pragma once

/*
 * A PDB file: its id, the sections of its image, its modules (object files) and public symbols.
 * Layout: LLVM's "The PDB File Format". The input is untrusted. Immutable once open: any number of
 * threads may use it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/pdb/msf_file.h"
#include "symbols/pdb/pe_image.h"

struct pdb_file;

/* `bytes` must outlive the file. Fails with ERR_INPUT if it is no PDB file or is inconsistent. */
int pdb_file_open(struct pdb_file **out, struct view bytes, struct err *e);

/* `f` may be NULL. */
void pdb_file_close(struct pdb_file *f);

const struct msf_file *pdb_file_streams(const struct pdb_file *f);
struct pdb_id pdb_file_id(const struct pdb_file *f);
uint16_t pdb_file_machine(const struct pdb_file *f); /* IMAGE_FILE_MACHINE_… */
/* Sections of the image; their offsets and sizes in the file are the image's. */
const pe_sections *pdb_file_sections(const struct pdb_file *f);

/* The address of a position in a section (from 1). False if there is no such section. */
bool pdb_file_address(const struct pdb_file *f, uint16_t section, uint32_t offset,
                      uint64_t *address);

/* A text of the string table, with a NUL behind it; "" if there is none. */
const char *pdb_file_text(const struct pdb_file *f, uint32_t offset);

struct pdb_module {
    uint32_t stream;       /* UINT32_MAX: no symbols */
    uint32_t symbols_size; /* bytes of the stream, from its start */
    uint32_t old_size;     /* line information in an old form, which is not read */
    uint32_t lines_size;
};

size_t pdb_file_module_count(const struct pdb_file *f);
const struct pdb_module *pdb_file_module_at(const struct pdb_file *f, size_t i);

/* Calls `take` for each part of a section that a module contributed; it returns false to stop. */
typedef bool pdb_take_part(void *user, uint32_t module, uint64_t low, uint64_t high);
void pdb_file_parts(const struct pdb_file *f, pdb_take_part *take, void *user);

/*
 * Public symbols of code: mangled names without sizes. The bytes belong to the file. Fails with
 * ERR_INPUT if they cannot be read.
 */
typedef bool pdb_take_public(void *user, uint64_t address, uint32_t name);
int pdb_file_publics(struct pdb_file *f, struct view *names, pdb_take_public *take, void *user,
                     struct err *e);
