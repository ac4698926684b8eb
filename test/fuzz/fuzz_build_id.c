/* Any bytes as an ELF file: its build id is found or not, and its text fits. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/elf/build_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct build_id id;
    char text[2 * BUILD_ID_MAX + 1];
    int fd = memfd_create("elf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    if (build_id_read(fd, &id) != (id.len > 0))
        abort();
    build_id_text(&id, text);
    if (strlen(text) != (id.len ? (size_t)2 * id.len : 1))
        abort();
    close(fd);
    return 0;
}
