#pragma once

/*
 * As element_type.h, for demangled names of D:
 *
 *     core.lifetime._d_newitemT!(demo.Item)._d_newitemT()                     demo.Item
 *     core.internal.array.appending._d_arrayappendT!(int[], int)._d_arrayappendT(…)     int
 *     std.container.array.Array!(demo.Item).Array.Payload.reserve(ulong)      demo.Item
 *
 * Older compilers call functions with a TypeInfo argument (`_d_newitemT` without template
 * arguments), whose names have no type. Sources: druntime and Phobos 2.076 to 2.111. For
 * element_type.c only.
 */

#include "analysis/names/element_type.h"

/* Whether the text can be such a name. */
bool element_type_is_d(struct view function);

enum element_evidence element_type_d(struct view function, struct buf *out);
