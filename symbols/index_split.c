/* Split units. */

#include "symbols/elf_file.h"
#include "symbols/index_build.h"

int split_package_read(struct split_package *p, struct elf_file *f, struct err *e)
{
    if (dwarf_sections_read(&p->sections, f, true, e) != 0 ||
        elf_file_section(f, ".debug_cu_index", &p->index, e) != 0)
        return -1;
    p->present = p->index.len > 0;
    return 0;
}

void split_package_release(struct split_package *p)
{
    (void)p;
}

bool split_walk(struct index_build *b, struct unit_walk *w, const struct dwarf_entry *skeleton)
{
    (void)b;
    (void)w;
    (void)skeleton;
    return false;
}
