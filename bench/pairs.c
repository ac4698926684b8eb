/*
 * The benchmark of `tidemark run`: threads that allocate and free, ROUNDS pairs in all, some calls
 * deep.
 *
 *     pairs THREADS ROUNDS
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 64
#define DEPTH 6

static long rounds;

static __attribute__((noinline)) void *allocate(unsigned depth, size_t size)
{
    void *p = depth ? allocate(depth - 1, size) : malloc(size);
    /* Prevents a tail call: each level needs its frame. */
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void *work(void *seed)
{
    unsigned long n = (unsigned long)seed;
    for (long i = 0; i < rounds; i++) {
        n = n * 6364136223846793005u + 1442695040888963407u;
        free(allocate((unsigned)(n >> 40) % DEPTH, n >> 56));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t list[THREADS_MAX];
    long threads = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 1000000;
    if (threads < 1 || threads > THREADS_MAX || rounds < threads)
        return 2;
    rounds /= threads;
    for (long i = 0; i < threads; i++) {
        if (pthread_create(&list[i], NULL, work, (void *)i) != 0)
            return 1;
    }
    for (long i = 0; i < threads; i++)
        pthread_join(list[i], NULL);
    printf("%ld pairs\n", rounds * threads);
    return 0;
}
