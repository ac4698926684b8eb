/*
 * A client that lives: it allocates in functions of its own, with real call stacks, and answers a
 * server's queries for them as real clients do. For tests of what becomes of addresses, stripped
 * and under address space randomisation.
 *
 *     stack_client names|offline [PORT [MIB [reported]]]
 *
 * names: what the dynamic symbols know, as "NAME + OFFSET"; offline: "[unresolved]", and offsets in
 * images. It listens on the loopback interface, prints its port and pid, and ends with the server.
 * With MIB it touches so much memory once it is connected, plots a value by a name of the kernel's
 * counts, again for each byte of its input, and ends when its input does. With "reported" it
 * reports that block, and another of the same size that it does not touch.
 */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/encoder.h"
#include "protocol/handshake.h"
#include "protocol/query.h"

#define PROTOCOL 82
#define FRAMES_MAX 32

void shop_record(size_t size);
void shop_order(size_t size);
void shop_restock(size_t size);

struct client {
    const struct wire_version *version;
    struct encoder *enc;
    struct err e;
    int socket;
    bool offline;
    uint64_t allocations;
};

static struct client client;

static void die(const char *what)
{
    fprintf(stderr, "stack_client: %s %s\n", what, client.e.text);
    exit(1);
}

static void item(const char *name, const struct encoder_field *fields, size_t n, struct view tail)
{
    if (encoder_item(client.enc, name, fields, n, tail, &client.e) != 0)
        die(name);
}

#define FIELDS(...)                                                                                \
    (struct encoder_field[]){__VA_ARGS__},                                                         \
        sizeof((struct encoder_field[]){__VA_ARGS__}) / sizeof(struct encoder_field)

static void string(bool second, const char *text)
{
    if (encoder_string(client.enc, second, view_of(text), &client.e) != 0)
        die("a string");
}

static void send_all(void)
{
    if (encoder_commit(client.enc, &client.e) != 0)
        die("a frame");
    struct buf *out = encoder_output(client.enc);
    for (size_t done = 0; done < out->len;) {
        ssize_t n = send(client.socket, out->data + done, out->len - done, MSG_NOSIGNAL);
        if (n <= 0)
            exit(0);
        done += (size_t)n;
    }
    buf_clear(out);
}

/* ---- what is traced */

__attribute__((noinline)) void shop_record(size_t size)
{
    void *frames[FRAMES_MAX];
    uint64_t addresses[FRAMES_MAX];
    int n = backtrace(frames, FRAMES_MAX);
    for (int i = 0; i < n; i++)
        addresses[i] = (uint64_t)(uintptr_t)frames[i];
    client.allocations++;
    item("CallstackPayload", FIELDS(ENC_INT("ptr", 0x1000 + client.allocations)),
         (struct view){(const char *)addresses, (size_t)n * sizeof *addresses});
    item("CallstackSerial", NULL, 0, (struct view){0});
    item("MemAllocCallstack",
         FIELDS(ENC_INT("time", 1000), ENC_INT("thread", 7),
                ENC_INT("ptr", 0x10000 * client.allocations), ENC_INT("size", size)),
         (struct view){0});
}

static inline __attribute__((always_inline)) void shop_take(size_t size)
{
    shop_record(size); /* line: take */
}

static inline __attribute__((always_inline)) void shop_pack(size_t size)
{
    shop_take(size + 1); /* line: pack */
}

__attribute__((noinline)) void shop_order(size_t size)
{
    shop_pack(size * 2); /* line: order */
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void hidden_shelf(size_t size)
{
    shop_order(size + 3); /* line: shelf */
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void shop_restock(size_t size)
{
    hidden_shelf(size); /* line: restock */
    shop_record(size);
    __asm__ volatile("" ::: "memory");
}

/* ---- what is told */

/* The image as a client knows it: its name and where it was moved to. */
struct image {
    uint64_t address, bias;
    char name[4096];
};

static int find_image(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct image *image = ctx;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || image->address < start || image->address >= start + p->p_memsz)
            continue;
        image->bias = info->dlpi_addr;
        if (info->dlpi_name[0])
            snprintf(image->name, sizeof image->name, "%s", info->dlpi_name);
        else if (readlink("/proc/self/exe", image->name, sizeof image->name - 1) < 0)
            return 0;
        return 1;
    }
    return 0;
}

static void tell_frame(uint64_t address)
{
    struct image image = {.address = address, .name = "[unknown]"};
    char name[512] = "[unresolved]";
    Dl_info info = {0};
    (void)dl_iterate_phdr(find_image, &image);
    uint64_t symbol = address - image.bias;
    if (!client.offline) {
        (void)dladdr((void *)(uintptr_t)address, &info);
        symbol = (uint64_t)(uintptr_t)info.dli_saddr;
        snprintf(name, sizeof name, "%s + %llu", info.dli_sname ? info.dli_sname : "[unknown]",
                 (unsigned long long)(address - symbol));
    }
    string(false, image.name);
    item("CallstackFrameSize", FIELDS(ENC_INT("ptr", address), ENC_INT("size", 1)),
         (struct view){0});
    string(false, name);
    string(true, "[unknown]");
    item("CallstackFrame",
         FIELDS(ENC_INT("line", 0), ENC_INT("symAddr", symbol), ENC_INT("symLen", 0)),
         (struct view){0});
}

static void answer(const uint8_t packet[QUERY_PACKET_SIZE])
{
    enum query_kind kind;
    uint64_t ptr;
    uint32_t extra;
    if (!query_packet_parse(client.version, packet, &kind, &ptr, &extra))
        exit(0); /* Terminate, or what we do not know */
    switch (kind) {
    case QUERY_CALLSTACK_FRAME:
        tell_frame(ptr);
        break;
    case QUERY_SYMBOL:
        string(false, "[unknown]");
        item("SymbolInformation", FIELDS(ENC_INT("line", 0), ENC_INT("symAddr", ptr)),
             (struct view){0});
        break;
    case QUERY_PLOT_NAME:
        item("PlotName", FIELDS(ENC_INT("ptr", ptr)), view_of("kernel: PSS"));
        break;
    case QUERY_THREAD:
        item("ThreadName", FIELDS(ENC_INT("ptr", ptr)), view_of("main"));
        break;
    default:
        item("AckServerQueryNoop", NULL, 0, (struct view){0});
        break;
    }
}

static void answer_all(void)
{
    uint8_t packets[QUERY_PACKET_SIZE * 256];
    size_t have = 0;
    for (;;) {
        ssize_t n = recv(client.socket, packets + have, sizeof packets - have, 0);
        if (n <= 0)
            return;
        have += (size_t)n;
        size_t at = 0;
        for (; have - at >= QUERY_PACKET_SIZE; at += QUERY_PACKET_SIZE)
            answer(packets + at);
        memmove(packets, packets + at, have - at);
        have -= at;
        send_all();
    }
}

/* ---- the connection */

static int listen_on(const char *port)
{
    int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, (struct sockaddr *)&a, sizeof a) != 0 || listen(s, 4) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &len) != 0)
        die("listen");
    printf("%u %d\n", ntohs(a.sin_port), (int)getpid());
    fflush(stdout);
    return s;
}

/* A server may try other protocol numbers first. */
static bool shake_hands(void)
{
    uint8_t request[HANDSHAKE_REQUEST_SIZE], out[1 + WELCOME_SIZE_MAX] = {HANDSHAKE_WELCOME};
    uint32_t protocol;
    if (recv(client.socket, request, sizeof request, MSG_WAITALL) != (ssize_t)sizeof request ||
        handshake_request_parse(request, &protocol, &client.e) != 0)
        return false;
    if (protocol != PROTOCOL) {
        out[0] = HANDSHAKE_MISMATCH;
        (void)send(client.socket, out, 1, MSG_NOSIGNAL);
        return false;
    }
    const struct welcome w = {.timer_mul = 1,
                              .resolution = 1,
                              .epoch = 1700000000,
                              .pid = (uint64_t)getpid(),
                              .cpu_arch = ARCH_X64,
                              .program_name = "stack_client"};
    welcome_encode(client.version, &w, out + 1);
    size_t n = 1 + wire_version_welcome_size(client.version);
    return send(client.socket, out, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void report(const char *block, size_t size)
{
    item("MemAlloc",
         FIELDS(ENC_INT("time", 2000), ENC_INT("thread", 7), ENC_INT("ptr", (uintptr_t)block),
                ENC_INT("size", size)),
         (struct view){0});
}

/* Not of the allocator, which may touch them itself. */
static char *pages(size_t size)
{
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("no memory");
    return p;
}

static void hold(const char *mib, bool reported)
{
    size_t size = strtoul(mib, NULL, 10) << 20;
    char *block = pages(size), *other = pages(size), c;
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block), "r"(other) : "memory");
    if (reported) {
        report(block, size);
        report(other, size);
    }
    do {
        item("PlotDataInt", FIELDS(ENC_INT("name", 0x77), ENC_INT("time", 1), ENC_INT("val", 7)),
             (struct view){0});
        send_all();
    } while (read(0, &c, 1) > 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("names|offline [PORT]");
    client.offline = strcmp(argv[1], "offline") == 0;
    client.version = wire_version_find(PROTOCOL);
    client.enc = encoder_new(client.version);
    if (!client.enc)
        die("no memory");
    int listener = listen_on(argc > 2 ? argv[2] : "0");
    while ((client.socket = accept(listener, NULL, NULL)) >= 0 && !shake_hands())
        close(client.socket);
    for (size_t size = 10; size < 40; size += 10) {
        shop_restock(size);
        shop_order(size);
    }
    if (argc > 3)
        hold(argv[3], argc > 4);
    item("Terminate", NULL, 0, (struct view){0});
    send_all();
    answer_all();
    encoder_free(client.enc);
    return 0;
}
