#include "protocol/handshake.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"

#define ABSENT 0xff
#define NAME_SIZE 64u

/*
 * Field offsets of each announcement layout. In the first two layouts the version has 32 bits; its
 * low half has the same offset as the 16-bit version of later layouts.
 */
static const struct layout {
    uint8_t wide; /* version and port are u32 */
    uint8_t port, protocol, pid, active, name;
} layouts[] = {
    {1, ABSENT, 4, ABSENT, 8, 12},
    {1, 8, 4, ABSENT, 12, 16},
    {0, 2, 4, ABSENT, 8, 12},
    {0, 2, 4, 8, 16, 20},
};

static int check(uint32_t port, const struct broadcast *b, struct err *e)
{
    if (port == 0 || port > UINT16_MAX)
        return err_set(e, ERR_INPUT,
                       "announcement, layout %" PRIu32 ": port %" PRIu32 " does not exist",
                       b->version, port);
    return 0;
}

int broadcast_parse(const uint8_t *bytes, size_t len, struct broadcast *b, struct err *e)
{
    *b = (struct broadcast){0};
    if (len < 4)
        return err_set(e, ERR_INPUT, "announcement: %zu bytes are too few", len);
    b->version = load_u16(bytes);
    if (b->version >= sizeof layouts / sizeof *layouts ||
        (layouts[b->version].wide && load_u32(bytes) != b->version))
        return err_set(e, ERR_INPUT, "announcement: unknown layout %" PRIu32, b->version);
    const struct layout *at = &layouts[b->version];
    if (len < at->name || len > at->name + NAME_SIZE)
        return err_set(e, ERR_INPUT,
                       "announcement, layout %" PRIu32 ": %zu bytes where %u to %u belong",
                       b->version, len, at->name, at->name + NAME_SIZE);
    uint32_t port = BROADCAST_PORT;
    if (at->port != ABSENT)
        port = at->wide ? load_u32(bytes + at->port) : load_u16(bytes + at->port);
    if (check(port, b, e) < 0)
        return -1;
    b->port = (uint16_t)port;
    b->protocol = load_u32(bytes + at->protocol);
    b->pid = at->pid != ABSENT ? load_u64(bytes + at->pid) : 0;
    b->active_time = load_i32(bytes + at->active);
    size_t n = strnlen((const char *)bytes + at->name, len - at->name);
    memcpy(b->name, bytes + at->name, n);
    b->name[n] = 0;
    return 0;
}

size_t broadcast_encode(const struct broadcast *b, uint8_t out[BROADCAST_SIZE_MAX])
{
    if (b->version >= sizeof layouts / sizeof *layouts)
        return 0;
    const struct layout *at = &layouts[b->version];
    memset(out, 0, BROADCAST_SIZE_MAX);
    store_u16(out, (uint16_t)b->version);
    if (at->port != ABSENT)
        store_u16(out + at->port, b->port);
    store_u32(out + at->protocol, b->protocol);
    if (at->pid != ABSENT)
        store_u64(out + at->pid, b->pid);
    store_u32(out + at->active, (uint32_t)b->active_time);
    size_t n = strnlen(b->name, NAME_SIZE - 1);
    memcpy(out + at->name, b->name, n);
    return at->name + n + 1;
}
