/* Snapshots of PyTorch's CUDA memory, pickle or JSON, plain or compressed, to a trace. */

#include "test/fuzz/import_and_save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    import_bytes(data, size, import_torch);
    return 0;
}
