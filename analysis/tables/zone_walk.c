#include "analysis/tables/zone_walk.h"

void zone_walk_release(struct zone_walk *w)
{
    vec_release(&w->open);
    w->count = 0;
}
