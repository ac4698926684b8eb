#pragma once

/*
 * The links of an ELF file to its debug files: .gnu_debuglink, which strip writes, and
 * .gnu_debugaltlink, which dwz writes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"
#include "symbols/elf/build_id.h"
#include "symbols/elf/elf_file.h"

struct debug_link {
    struct view name;         /* file name: untrusted, not empty, without a NUL */
    uint32_t crc;             /* of .gnu_debuglink: debug_link_crc of the file */
    struct build_id build_id; /* of .gnu_debugaltlink: build id of the file */
};

/* False if there is no readable link. `out` is valid as long as `f` is open. */
bool debug_link_read(struct elf_file *f, struct debug_link *out);
bool debug_altlink_read(struct elf_file *f, struct debug_link *out);

/* The CRC-32 of a whole file, as in .gnu_debuglink. */
uint32_t debug_link_crc(struct view bytes);
