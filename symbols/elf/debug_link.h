#ifndef TIDEMARK_SYMBOLS_ELF_DEBUG_LINK_H
#define TIDEMARK_SYMBOLS_ELF_DEBUG_LINK_H

/*
 * What an ELF file says about files that hold its debug information: .gnu_debuglink, which strip
 * leaves, and .gnu_debugaltlink, which dwz writes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"
#include "symbols/elf/build_id.h"
#include "symbols/elf/elf_file.h"

struct debug_link {
    struct view name;         /* of a file: a stranger's text, not empty, without a NUL */
    uint32_t crc;             /* .gnu_debuglink: debug_link_crc of the file */
    struct build_id build_id; /* .gnu_debugaltlink: of the file */
};

/* False when there is none, or none that can be read. `out` is valid as long as `f` is open. */
bool debug_link_read(struct elf_file *f, struct debug_link *out);
bool debug_altlink_read(struct elf_file *f, struct debug_link *out);

/* The CRC-32 of a whole file as .gnu_debuglink has it. */
uint32_t debug_link_crc(struct view bytes);

#endif
