/*
 * A producer and a consumer whose peak depends on chance, to see what `tidemark diff` takes for a
 * change. Usage: noisy queue | stable PERCENT | function PERCENT
 *
 * queue: the queue has no bound, and the consumer stalls at random times: the peak is anything from
 * 13.5 to 60 MB. stable: the queue is bounded, and what is kept varies by a few blocks; one
 * function takes so much more that the peak rises by PERCENT. function: a function that keeps a
 * quarter of the memory takes PERCENT more.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define SITE(N)                                                                                    \
    __attribute__((noinline)) static void *site_##N(size_t size)                                   \
    {                                                                                              \
        char *volatile p = malloc(size);                                                           \
        p[0] = N;                                                                                  \
        return p;                                                                                  \
    }
/* clang-format off */
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) SITE(8) SITE(9)
SITE(10) SITE(11) SITE(12) SITE(13) SITE(14) SITE(15) SITE(16) SITE(17) SITE(18) SITE(19)
    /* clang-format on */

    static void *(*const sites[])(size_t) = {
        site_0,  site_1,  site_2,  site_3,  site_4,  site_5,  site_6,  site_7,  site_8,  site_9,
        site_10, site_11, site_12, site_13, site_14, site_15, site_16, site_17, site_18, site_19};

enum { SITES = 20, BLOCK = 40000, KEPT = 337, ITEMS = 1163 };

static uint64_t random_bits(void)
{
    uint64_t n = 0;
    while (getrandom(&n, sizeof n, 0) != sizeof n)
        continue;
    return n >> 1;
}

static void rest(long microseconds)
{
    const struct timespec t = {0, microseconds * 1000};
    nanosleep(&t, NULL);
}

struct queue {
    void *items[ITEMS];
    atomic_uint made, used;
    unsigned bound;  /* 0: none */
    unsigned stalls; /* of 1,000 items */
};

static void *consume(void *ctx)
{
    struct queue *q = ctx;
    while (atomic_load(&q->used) < ITEMS) {
        unsigned at = atomic_load(&q->used);
        if (at == atomic_load(&q->made)) {
            rest(20);
            continue;
        }
        if (random_bits() % 1000 < q->stalls)
            rest((long)(random_bits() % 20000));
        free(q->items[at]);
        atomic_store(&q->used, at + 1);
    }
    return NULL;
}

static void produce(struct queue *q)
{
    pthread_t consumer;
    pthread_create(&consumer, NULL, consume, q);
    for (unsigned i = 0; i < ITEMS; i++) {
        while (q->bound && i - atomic_load(&q->used) >= q->bound)
            rest(20);
        q->items[i] = sites[i % SITES](BLOCK);
        atomic_store(&q->made, i + 1);
        if (i % 4 == 0)
            rest(50);
    }
    pthread_join(consumer, NULL);
}

/* What is kept until the end: a quarter by the first function. */
static void keep(double more_bytes, double more_of_first, unsigned jitter)
{
    for (unsigned i = 0; i < KEPT; i++) {
        double size = i % 4 == 0 ? BLOCK * (1 + more_of_first) : BLOCK;
        (void)sites[i % 4 == 0 ? 0 : i % SITES](size > 1 ? (size_t)size : 1);
    }
    for (unsigned i = 0; jitter && i < random_bits() % jitter; i++)
        (void)sites[random_bits() % SITES](BLOCK / 4);
    if (more_bytes >= 1)
        (void)sites[7]((size_t)more_bytes);
}

int main(int argc, char **argv)
{
    static struct queue q;
    const char *mode = argc > 1 ? argv[1] : "queue";
    double percent = argc > 2 ? atof(argv[2]) : 0;
    if (strcmp(mode, "queue") == 0) {
        q.stalls = (unsigned)(random_bits() % 60);
        keep(0, 0, 4);
    } else {
        q.bound = 16;
        double peak = (double)(KEPT + 16) * BLOCK;
        keep(strcmp(mode, "stable") == 0 ? peak * percent / 100 : 0,
             strcmp(mode, "function") == 0 ? percent / 100 : 0, 6);
    }
    produce(&q);
    return 0;
}
