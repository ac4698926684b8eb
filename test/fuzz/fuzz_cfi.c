/*
 * Any bytes as the unwind table of a module: the preload library reads those of whatever a program
 * has loaded. The first 8 bytes of the input are where the header begins and what address is asked
 * for, as 32-bit offsets; the table lies in memory that ends where the input does.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/cfi.c" /* its folder is no library: it becomes one object of its own */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t header;
    int32_t address;
    if (size < 9)
        return 0;
    memcpy(&header, data, 4);
    memcpy(&address, data + 4, 4);
    size -= 8;
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data + 8, size);
    struct cfi_table table = {copy + header % size, copy, copy + size};
    uint64_t place = (uint64_t)(uintptr_t)copy + (uint64_t)(int64_t)address;
    const struct cfi_registers *const machines[] = {&cfi_x86_64, &cfi_aarch64};
    for (size_t i = 0; i < 2; i++) {
        struct cfi_rule rule = cfi_find(&table, machines[i], place);
        if (rule.kind == CFI_UNKNOWN || rule.kind > CFI_FRAME || rule.bp > 0 || rule.ra > 0)
            abort();
    }
    free(copy);
    return 0;
}
