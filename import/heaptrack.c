#include "import/import.h"

int import_heaptrack(struct import_source *s, struct ingest *in, struct import_counts *counts,
                     struct err *e)
{
    (void)s;
    (void)in;
    (void)counts;
    return err_set(e, ERR_INPUT, "not yet");
}
