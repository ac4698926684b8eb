/* Recordings of heaptrack, plain or compressed, to a trace. */

#include "test/fuzz/import_and_save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    import_bytes(data, size, import_heaptrack);
    return 0;
}
