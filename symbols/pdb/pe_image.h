#pragma once

/*
 * The headers of a PE image (a Windows program or DLL): sections, exported names, and the CodeView
 * record, which names the PDB file that belongs to the image. Layout: Microsoft's "PE Format". The
 * input is untrusted.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

/* Identifies one build: the GUID as it is printed in a symbol store, and the age (big-endian). */
#define PDB_ID_SIZE 20u

struct pdb_id {
    uint8_t bytes[PDB_ID_SIZE];
    bool known;
};

/* Makes an id of a GUID as PE and PDB files store it. */
struct pdb_id pdb_id_of(const uint8_t guid[16], uint32_t age);

#define PE_SECTION_EXECUTE UINT32_C(0x20000000)
#define PE_SECTION_WRITE UINT32_C(0x80000000)
#define PE_SECTION_HEADER 40u /* bytes */

/* Addresses are relative to where the image is loaded, as Windows clients send them. */
struct pe_section {
    struct view name; /* part of the header; a name of 8 bytes has no NUL */
    uint32_t address, memory_size;
    uint32_t offset, file_size; /* in the file, as stated */
    uint32_t flags;             /* IMAGE_SCN_… */
};

typedef VEC(struct pe_section) pe_sections;

struct pe_image {
    uint16_t machine;      /* IMAGE_FILE_MACHINE_… */
    bool wide;             /* PE32+ */
    uint64_t base;         /* preferred load address */
    uint32_t headers_size; /* bytes of the file mapped at address 0 */
    pe_sections sections;
    struct pdb_id id;     /* of the CodeView record */
    struct view pdb_name; /* path of the PDB file when the image was linked; may be empty */
    struct view exports;  /* the export directory, its tables and names; may be empty */
    uint32_t exports_address;
};

/* Whether the bytes begin like a PE image (or any DOS program). */
bool pe_image_is(struct view bytes);

/*
 * Reads the headers; names are views of `bytes`. Fails with ERR_INPUT if they are damaged. An image
 * without a readable CodeView record has an unknown id. Release it in either case.
 */
int pe_image_read(struct pe_image *out, struct view bytes, struct err *e);
void pe_image_release(struct pe_image *p);

/*
 * Calls `take` for each exported name of this image's own code or data, with the name's position in
 * `exports`; if it returns false, so does this. Names without a terminator end with `exports`.
 */
typedef bool pe_take_export(void *user, uint64_t address, uint32_t name);
bool pe_image_exports(const struct pe_image *p, pe_take_export *take, void *user);

/*
 * Reads section headers, as an image and a PDB file have them. At most as many as there are bytes
 * for. False if memory is short.
 */
bool pe_sections_read(pe_sections *out, struct view headers);

/* The ELF machine number (EM_…) of a PE machine; EM_NONE if it is another. */
uint16_t pe_elf_machine(uint16_t machine);
