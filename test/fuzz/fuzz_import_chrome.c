/* Chrome trace JSON, plain or compressed, to a trace. */

#include "test/fuzz/import_and_save.h"

static int import(struct import_source *s, struct ingest *in, struct import_counts *counts,
                  struct err *e)
{
    return import_chrome(s, in, NULL, counts, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    import_bytes(data, size, import);
    return 0;
}
