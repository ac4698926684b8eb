/* The symbolizer as the backend of a helper process. */

#include "symbols/helper/helper_serve.h"

const struct helper_backend symbolizer_backend = {.open = symbolizer_open,
                                                  .close = symbolizer_close,
                                                  .facts = symbolizer_facts,
                                                  .prepare = symbolizer_prepare,
                                                  .lookup = symbolizer_lookup,
                                                  .ahead = symbolizer_ahead,
                                                  .infer = symbolizer_infer,
                                                  .code = symbolizer_code,
                                                  .keep = symbolizer_keep};
