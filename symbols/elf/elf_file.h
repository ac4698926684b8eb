#pragma once

/*
 * Reads an ELF file, 32- or 64-bit, little-endian: segments, sections by name (inflated if
 * compressed), and links to files that belong to it. The file is untrusted; every offset and size
 * is checked before use.
 *
 * A PE image and a PDB file are read into the same form (symbols/pdb): sections become segments and
 * sections, addresses are relative to the load address, and GUID and age are the build id.
 *
 * A file is mapped, not read. If another process truncates it meanwhile, access raises SIGBUS. So
 * map files that others can write only in the helper process, whose death costs the names of one
 * image.
 *
 * A struct elf_file is for one thread at a time, since elf_file_section caches inflated bytes. Its
 * views stay valid, for any thread, until elf_file_close.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"

struct elf_file;
struct pdb_file;

struct elf_limits {
    uint64_t inflated_bytes; /* total inflated size of all sections of one file */
};

#define ELF_LIMITS_DEFAULT ((struct elf_limits){.inflated_bytes = (uint64_t)4 << 30})

/* One PT_LOAD program header. Sizes and offsets in bytes. */
struct elf_segment {
    uint32_t flags; /* PF_R, PF_W, PF_X */
    uint64_t offset;
    uint64_t address;
    uint64_t file_size; /* clipped to the file's size */
    uint64_t memory_size;
};

struct elf_section {
    struct view name;
    uint32_t type;  /* SHT_… */
    uint64_t flags; /* SHF_… */
    uint64_t address;
    uint64_t offset;
    uint64_t size; /* as stated; elf_file_section_bytes checks it */
    uint64_t align;
    uint64_t entry_size;
    uint32_t link;
};

/* Identifies one build of a file: the key of its cache entries. */
struct elf_key {
    uint64_t size;    /* of the file, in bytes */
    uint64_t hash[2]; /* of headers, section names, symbol tables and build id; without a build id,
                         of the modification time */
};

/*
 * Maps the file open at `fd`, which can be closed afterwards. `limits` may be NULL. Fails with
 * ERR_INPUT if it is no regular file, no little-endian ELF file, or has headers outside of it.
 */
int elf_file_open(struct elf_file **out, int fd, const struct elf_limits *limits, struct err *e);

/* As elf_file_open, for bytes in memory, which must outlive the result. */
int elf_file_open_bytes(struct elf_file **out, struct view bytes, const struct elf_limits *limits,
                        struct err *e);

/* `f` may be NULL. */
void elf_file_close(struct elf_file *f);

/*
 * The bytes of the first section called `name`. Compressed sections (SHF_COMPRESSED with zlib or
 * zstd) are inflated and cached; ".debug_x" also finds ".zdebug_x". out->p is NULL if the section
 * is missing or has no bytes in this file (SHT_NOBITS). Fails with ERR_INPUT if the section is
 * outside of the file, cannot be inflated or exceeds the limit.
 */
int elf_file_section(struct elf_file *f, const char *name, struct view *out, struct err *e);

/* As elf_file_section, by number, for i < elf_file_section_count(f). */
int elf_file_section_bytes(struct elf_file *f, size_t i, struct view *out, struct err *e);
size_t elf_file_section_count(const struct elf_file *f);
const struct elf_section *elf_file_section_at(const struct elf_file *f, size_t i);

/* Whether a section of that name (or its .zdebug twin) has bytes in this file. Inflates nothing. */
bool elf_file_has_section(const struct elf_file *f, const char *name);

/* False for a PE image and a PDB file. */
bool elf_file_is_elf(const struct elf_file *f);

/* The PDB file that this is, or NULL. */
struct pdb_file *elf_file_pdb(const struct elf_file *f);

/* Of a PE image: the path of its PDB file when it was linked; else empty. */
struct view elf_file_pdb_name(const struct elf_file *f);

/* Whether the file has .debug_info or .debug_line, or is a PDB file. */
bool elf_file_has_debug_info(const struct elf_file *f);

bool elf_file_is_64(const struct elf_file *f);
uint16_t elf_file_type(const struct elf_file *f);    /* ET_EXEC, ET_DYN, ET_REL, … */
uint16_t elf_file_machine(const struct elf_file *f); /* EM_X86_64, EM_AARCH64, … */
struct view elf_file_bytes(const struct elf_file *f);

/*
 * Releases the memory of section bytes that are not needed for now; reading them again maps them
 * back. For any thread. Does nothing for bytes not mapped from the file.
 */
void elf_file_let_go(const struct elf_file *f, struct view bytes);

/* From the notes; len is 0 if there is none. */
const struct build_id *elf_file_build_id(const struct elf_file *f);

void elf_file_key(const struct elf_file *f, struct elf_key *out);

/* PT_LOAD segments in file order. */
size_t elf_file_segment_count(const struct elf_file *f);
const struct elf_segment *elf_file_segment_at(const struct elf_file *f, size_t i);

/* The lowest segment address, to which a load bias is relative; 0 without segments. */
uint64_t elf_file_base(const struct elf_file *f);

/*
 * Converts a file offset to a link-time address. Executable segments take precedence. False if no
 * segment contains the offset.
 */
bool elf_file_address_of_offset(const struct elf_file *f, uint64_t offset, uint64_t *address);

/* The file's bytes from an address to the end of its segment; out->p is NULL if there are none. */
void elf_file_at_address(const struct elf_file *f, uint64_t address, struct view *out);

/* Address and size of PT_GNU_EH_FRAME, the table of unwind entries. False if there is none. */
bool elf_file_eh_frame_hdr(const struct elf_file *f, uint64_t *address, uint64_t *size);
