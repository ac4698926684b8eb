/*
 * The bytes around a connection's start. The first byte picks what the rest is; whatever is taken
 * must come out the same after being written and read again.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_welcome(const struct wire_version *v, const uint8_t *data, size_t size)
{
    struct welcome a, b;
    struct err e = {0};
    uint8_t bytes[WELCOME_SIZE_MAX];
    if (welcome_parse(v, data, size, &a, &e) < 0) {
        if (e.code != ERR_INPUT || !e.text[0])
            abort();
        return;
    }
    welcome_encode(v, &a, bytes);
    if (welcome_parse(v, bytes, wire_version_welcome_size(v), &b, &e) < 0 ||
        a.timer_mul != b.timer_mul || a.init_begin != b.init_begin || a.flags != b.flags ||
        strcmp(a.program_name, b.program_name) != 0 || strcmp(a.host_info, b.host_info) != 0)
        abort();
    welcome_time(&a, a.init_end);
    welcome_period(&a, a.resolution);
}

static void check_broadcast(const uint8_t *data, size_t size)
{
    struct broadcast a, b;
    struct err e = {0};
    uint8_t bytes[BROADCAST_SIZE_MAX];
    if (broadcast_parse(data, size, &a, &e) < 0) {
        if (e.code != ERR_INPUT || !e.text[0])
            abort();
        return;
    }
    a.name[63] = 0; /* a name that fills its field cannot be written with its NUL */
    size_t n = broadcast_encode(&a, bytes);
    if (broadcast_parse(bytes, n, &b, &e) < 0 || a.port != b.port || a.protocol != b.protocol ||
        a.pid != b.pid || a.active_time != b.active_time || strcmp(a.name, b.name) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum handshake_status status;
    uint32_t protocol;
    if (size == 0)
        return 0;
    uint8_t what = *data++;
    size--;
    if (what < wire_version_count) {
        check_welcome(&wire_versions[what], data, size);
    } else if (what == wire_version_count) {
        check_broadcast(data, size);
    } else if (what == wire_version_count + 1 && size >= HANDSHAKE_REQUEST_SIZE) {
        handshake_request_parse(data, &protocol, NULL);
    } else if (size > 0) {
        handshake_status_parse(*data, &status, NULL);
    }
    return 0;
}
