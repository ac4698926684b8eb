/* Any bytes as a name of Microsoft's compiler. */

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "symbols/pdb/msvc_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf name = {0}, out = {0};
    buf_put(&name, data, size);
    buf_puts(&out, "before ");
    bool is_decoded = msvc_name(buf_str(&name), &out);
    check(is_decoded == (out.len > 7));
    /* Hashes of anonymous namespaces are replaced without a limit: 4 bytes by 21. */
    check(out.len <= 7 + MSVC_NAME_MAX || out.len <= 7 + 6 * size);
    buf_release(&name);
    buf_release(&out);
    return 0;
}
