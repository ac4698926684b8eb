#include "server/capture/pace.h"

void pace_note(struct pace *p, uint64_t in, uint64_t out, long long began, long long now)
{
    if (in == 0 && out == 0)
        return;
    p->expands = out / PACE_EXPANSION >= in;
    if (!p->expands)
        return;
    long long from = p->rest_until > now ? p->rest_until : now;
    p->rest_until = from + PACE_REST * (now - began);
}

int pace_rest_ms(const struct pace *p, long long now)
{
    return p->rest_until > now ? (int)((p->rest_until - now + 999999) / 1000000) : 0;
}
