#ifndef TIDEMARK_SYMBOLS_ELF_ELF_FILE_H
#define TIDEMARK_SYMBOLS_ELF_ELF_FILE_H

/*
 * An ELF file, 32- or 64-bit, little-endian: its segments, its sections by name, inflated when they
 * are compressed, and what it says about itself and about files that belong to it. The file may be
 * anything: every offset and size is checked before it is used.
 *
 * A file is mapped, not read. One that somebody cuts short while it is mapped raises SIGBUS: files
 * that others can write to are for the helper process only, whose end costs the names of one image.
 *
 * A struct elf_file is for one thread at a time, since elf_file_section keeps what it inflates.
 * Views that it gave stay valid, for any thread, until elf_file_close.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"

struct elf_file;

struct elf_limits {
    uint64_t inflated_bytes; /* that all sections of one file may state to inflate to, together */
};

#define ELF_LIMITS_DEFAULT ((struct elf_limits){.inflated_bytes = (uint64_t)4 << 30})

/* One PT_LOAD program header: what is mapped where, in bytes. */
struct elf_segment {
    uint32_t flags; /* PF_R, PF_W, PF_X */
    uint64_t offset;
    uint64_t address;
    uint64_t file_size; /* within the file, whatever the header says */
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

/* What tells one build of a file from another: the key for what is kept about it. */
struct elf_key {
    uint64_t size;    /* of the file, in bytes */
    uint64_t hash[2]; /* of its headers, names of sections, symbol tables, and of its build id;
                         where it has none, of the time when it was changed */
};

/*
 * Maps the file open at `fd`, which can be closed afterwards. `limits` may be NULL. ERR_INPUT when
 * it is no regular file or no ELF file for little-endian machines, or its headers lie outside of
 * it.
 */
int elf_file_open(struct elf_file **out, int fd, const struct elf_limits *limits, struct err *e);

/* The same for bytes in memory, which must outlive the result. */
int elf_file_open_bytes(struct elf_file **out, struct view bytes, const struct elf_limits *limits,
                        struct err *e);

/* `f` may be NULL. */
void elf_file_close(struct elf_file *f);

/*
 * The bytes of the first section called `name`. Compressed ones are inflated (SHF_COMPRESSED with
 * zlib or zstd) and kept; ".debug_x" also finds ".zdebug_x". out->p is NULL when there is no such
 * section or it has no bytes in this file (SHT_NOBITS). ERR_INPUT when it lies outside of the file,
 * cannot be inflated, or is beyond the limit.
 */
int elf_file_section(struct elf_file *f, const char *name, struct view *out, struct err *e);

/* The same by number, for i < elf_file_section_count(f). */
int elf_file_section_bytes(struct elf_file *f, size_t i, struct view *out, struct err *e);
size_t elf_file_section_count(const struct elf_file *f);
const struct elf_section *elf_file_section_at(const struct elf_file *f, size_t i);

/* Whether a section of that name (or its .zdebug twin) has bytes in this file; inflates nothing. */
bool elf_file_has_section(const struct elf_file *f, const char *name);

/* Whether there is anything to read about lines or functions: .debug_info or .debug_line. */
bool elf_file_has_debug_info(const struct elf_file *f);

bool elf_file_is_64(const struct elf_file *f);
uint16_t elf_file_type(const struct elf_file *f);    /* ET_EXEC, ET_DYN, ET_REL, … */
uint16_t elf_file_machine(const struct elf_file *f); /* EM_X86_64, EM_AARCH64, … */
bool elf_file_is_shared(const struct elf_file *f);   /* a shared library or a PIE: ET_DYN */
struct view elf_file_bytes(const struct elf_file *f);

/*
 * Lets go of the memory behind bytes of a section that are not needed for now; reading them again
 * brings them back. For any thread. Does nothing where they are not mapped from the file.
 */
void elf_file_let_go(const struct elf_file *f, struct view bytes);

/* From its notes; len is 0 when it has none. */
const struct build_id *elf_file_build_id(const struct elf_file *f);

void elf_file_key(const struct elf_file *f, struct elf_key *out);

/* PT_LOAD segments in the order of the file. */
size_t elf_file_segment_count(const struct elf_file *f);
const struct elf_segment *elf_file_segment_at(const struct elf_file *f, size_t i);

/* The lowest address of a segment, which is what a load bias counts from; 0 without segments. */
uint64_t elf_file_base(const struct elf_file *f);

/*
 * Between places in the file and addresses as the linker gave them. A place in an executable
 * segment goes before one in another. False when no segment has it.
 */
bool elf_file_address_of_offset(const struct elf_file *f, uint64_t offset, uint64_t *address);
bool elf_file_offset_of_address(const struct elf_file *f, uint64_t address, uint64_t *offset);

/* The bytes of the file from an address to the end of its segment; out->p is NULL when none. */
void elf_file_at_address(const struct elf_file *f, uint64_t address, struct view *out);

/* Address of PT_GNU_EH_FRAME, the table of unwind entries. False when there is none. */
bool elf_file_eh_frame_hdr(const struct elf_file *f, uint64_t *address, uint64_t *size);

#endif
