#include "protocol/handshake.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cursor.h"
#include "protocol/wire_clock.h"

static const char shibboleth[8] = {'T', 'r', 'a', 'c', 'y', 'P', 'r', 'f'};

void handshake_request_encode(uint32_t protocol, uint8_t out[HANDSHAKE_REQUEST_SIZE])
{
    memcpy(out, shibboleth, sizeof shibboleth);
    store_u32(out + sizeof shibboleth, protocol);
}

int handshake_request_parse(const uint8_t in[HANDSHAKE_REQUEST_SIZE], uint32_t *protocol,
                            struct err *e)
{
    if (memcmp(in, shibboleth, sizeof shibboleth) != 0)
        return err_set(e, ERR_INPUT, "handshake: the request does not begin with TracyPrf");
    *protocol = load_u32(in + sizeof shibboleth);
    return 0;
}

int handshake_status_parse(uint8_t byte, enum handshake_status *status, struct err *e)
{
    switch (byte) {
    case HANDSHAKE_WELCOME:
    case HANDSHAKE_MISMATCH:
    case HANDSHAKE_NOT_AVAILABLE:
        *status = (enum handshake_status)byte;
        return 0;
    default:
        return err_set(e, ERR_INPUT,
                       "handshake: status byte %u is none of 1 (welcome), 2 (protocol mismatch), "
                       "3 (not available); is this a Tracy client?",
                       byte);
    }
}

/* Reads a text field of fixed size that may lack its terminator. */
static void take_text(struct cursor *c, char *out, size_t size)
{
    const uint8_t *p = cursor_take(c, size);
    size_t n = p ? strnlen((const char *)p, size) : 0;
    if (n > 0)
        memcpy(out, p, n);
    out[n] = 0;
}

int welcome_parse(const struct wire_version *version, const uint8_t *bytes, size_t len,
                  struct welcome *w, struct err *e)
{
    size_t want = wire_version_welcome_size(version);
    if (len != want)
        return err_set(e, ERR_INPUT, "protocol %" PRIu32 ", welcome: %zu bytes where %zu belong",
                       version->protocol, len, want);
    struct cursor c = cursor_over(bytes, len);
    *w = (struct welcome){0};
    w->timer_mul = cursor_f64(&c);
    w->init_begin = cursor_i64(&c);
    w->init_end = cursor_i64(&c);
    w->delay = version->facts.welcome_delay ? cursor_u64(&c) : 0;
    w->resolution = cursor_u64(&c);
    w->epoch = cursor_u64(&c);
    w->exec_time = cursor_u64(&c);
    w->pid = cursor_u64(&c);
    w->sampling_period = cursor_i64(&c);
    w->flags = cursor_u8(&c);
    w->cpu_arch = cursor_u8(&c);
    take_text(&c, w->cpu_manufacturer, sizeof w->cpu_manufacturer - 1);
    w->cpu_id = cursor_u32(&c);
    take_text(&c, w->program_name, sizeof w->program_name - 1);
    take_text(&c, w->host_info, sizeof w->host_info - 1);
    if (!isfinite(w->timer_mul) || w->timer_mul <= 0)
        return err_set(e, ERR_INPUT,
                       "protocol %" PRIu32 ", welcome, offset 0: timer factor %g is not a positive "
                       "number of nanoseconds per tick",
                       version->protocol, w->timer_mul);
    return 0;
}

static uint8_t *put_text(uint8_t *p, const char *text, size_t size)
{
    memset(p, 0, size);
    memcpy(p, text, strnlen(text, size));
    return p + size;
}

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    store_u64(p, v);
    return p + sizeof v;
}

void welcome_encode(const struct wire_version *version, const struct welcome *w,
                    uint8_t out[WELCOME_SIZE_MAX])
{
    uint8_t *p = out;
    store_f64(p, w->timer_mul);
    p = put_u64(p + 8, (uint64_t)w->init_begin);
    p = put_u64(p, (uint64_t)w->init_end);
    if (version->facts.welcome_delay)
        p = put_u64(p, w->delay);
    p = put_u64(p, w->resolution);
    p = put_u64(p, w->epoch);
    p = put_u64(p, w->exec_time);
    p = put_u64(p, w->pid);
    p = put_u64(p, (uint64_t)w->sampling_period);
    *p++ = w->flags;
    *p++ = w->cpu_arch;
    p = put_text(p, w->cpu_manufacturer, sizeof w->cpu_manufacturer - 1);
    store_u32(p, w->cpu_id);
    p = put_text(p + 4, w->program_name, sizeof w->program_name - 1);
    put_text(p, w->host_info, sizeof w->host_info - 1);
}

int64_t welcome_time(const struct welcome *w, int64_t ticks)
{
    struct wire_clock clock = {.begin = w->init_begin, .mul = w->timer_mul};
    return clock_ns(&clock, ticks);
}

int64_t welcome_period(const struct welcome *w, uint64_t ticks)
{
    return clock_truncate((double)ticks * w->timer_mul);
}

void on_demand_parse(const uint8_t in[ON_DEMAND_SIZE], struct on_demand *o)
{
    o->frames = load_u64(in);
    o->time = load_i64(in + 8);
}

void on_demand_encode(const struct on_demand *o, uint8_t out[ON_DEMAND_SIZE])
{
    store_u64(out, o->frames);
    store_i64(out + 8, o->time);
}
