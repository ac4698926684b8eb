#ifndef TIDEMARK_CLIENT_STATE_H
#define TIDEMARK_CLIENT_STATE_H

/*
 * All state of libtidemark.so: one struct for the process, one for each thread.
 *
 * The library runs inside another program. So it calls nothing that allocates with malloc, uses no
 * stdio, and holds no lock while the real function runs. Its memory comes from mmap. The order in a
 * hook is always: guard (tls.entered), room in the chunk, stamp, record, commit.
 */

#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "client/recording_format.h"

#define CLIENT_LEVELS 2u   /* hooks, and hooks in a signal handler that interrupted one */
#define CLIENT_PAGE 65536u /* the largest page size of any architecture */

#define client_likely(x) __builtin_expect(!!(x), 1)
#define client_unlikely(x) __builtin_expect(!!(x), 0)
/*
 * Keeps the compiler from reordering memory accesses; enough between a thread and its signal
 * handlers.
 */
#define client_barrier() __asm__ volatile("" ::: "memory")

/* The call of a hook. */
struct origin {
    uint64_t pc; /* return address */
    uint64_t sp; /* stack pointer after the return, or ORIGIN_NEAR */
    uint64_t bp; /* the caller's frame pointer, if it has one */
};

/* The stack pointer that is known only to be at an address or above. */
#define ORIGIN_NEAR(address) ((address) | 1)

/* The caller's stack pointer. */
#if defined(__x86_64__)
#define CFA_HERE() ((uint64_t)(uintptr_t)__builtin_frame_address(0) + 16)
#else
#define CFA_HERE() ((uint64_t)(uintptr_t)__builtin_dwarf_cfa())
#endif

/* For the function that contains it, which must keep a frame pointer. */
#define ORIGIN_HERE()                                                                              \
    ((struct origin){(uint64_t)(uintptr_t)__builtin_return_address(0), CFA_HERE(),                 \
                     *(const uint64_t *)__builtin_frame_address(0)})

/* A chunk being written. */
struct writer {
    struct rec_chunk *chunk; /* NULL: none yet */
    uint8_t *at, *end;
    uint64_t stamp, address; /* base of the next record's deltas */
    uint32_t units;          /* size of the next chunk */
    bool reserve;            /* the chunk exceeds the limit: for frees only */
};

struct walk_frame {
    uint64_t pc, sp, bp;   /* register values in this frame's function */
    const uint64_t *ra_at; /* address of the next frame's pc */
    const uint64_t *bp_at; /* address of its bp; NULL: unchanged from this frame */
    uint32_t words;        /* of the walk, from the outermost frame to this one */
    uint32_t node;         /* of the stack that begins with this frame */
    bool exact;            /* pc is not a return address */
    bool needs_bp;         /* its caller is found by bp; in a kept walk, or one further out is */
};

/* A word that a walk read, without the signature of an address. */
struct walk_word {
    const uint64_t *at;
    uint64_t value;
};

/* A Python frame. */
struct python_item {
    uint64_t address;     /* of its structure */
    uint64_t instruction; /* an address; before 3.11 a number */
    uint64_t code;        /* address of the code object */
    uint32_t source;      /* its number in the recording; 0: not to be shown */
    uint32_t mixed;       /* frames of the mixed stack up to this one */
};

/* An activation of Python's evaluator. */
struct python_activation {
    uint64_t address; /* within its frame of the C stack */
    uint32_t first;   /* the outermost of its Python frames */
    uint32_t natives; /* frames of the walk up to the one that contains it, */
    uint32_t mixed;   /* and frames of the mixed stack before its Python frames */
};

/*
 * An entry in the line table of a Python code object, from which the search for a later instruction
 * goes on: the code of a module may be as long as its file. All zero: none.
 */
struct python_line {
    uint64_t code;       /* address of the code object */
    uint32_t generation; /* of code objects there, see python_generation */
    uint32_t at;         /* the entry's offset in the table */
    int64_t unit, line;  /* where the entry before ends, and its line */
};

/* A frame of a stack with Python frames. */
struct mixed_frame {
    uint64_t pc;    /* as in struct rec_node */
    uint32_t flags; /* REC_NODE_SOURCE or 0 */
    uint32_t node;  /* of the stack that begins with it */
};

/* A mixed stack that differs from the walk's last one only in its innermost Python instruction. */
struct walk_step {
    uint64_t instruction;
    uint64_t serial; /* of the walk when it was made; 0: none */
    uint32_t source, node;
};

#define CLIENT_STEPS 32u

/*
 * Frames that a walk keeps, native and Python's: more than call stacks show, so that it can go on
 * from the last one at another depth. A Python function of CPython 3.8 to 3.10 takes three native
 * frames or more.
 */
#define CLIENT_NATIVES 640u
#define CLIENT_ITEMS REC_DEPTH_MAX

/*
 * The last walk of a thread's stack, so that the next one can stop early. Frames below `count` are
 * valid. It is not on the program's stack, which may be small.
 *
 * The Python frames of the last reading, and the mixed stack that it gave, are kept as well. What
 * `mixed_same` counts is as it was when the mixed stack was made.
 */
struct walk {
    uint32_t count;
    uint32_t named;    /* leading frames whose `node` is set, */
    uint32_t left_out; /* after so many that are too far out */
    uint32_t epoch;
    uint32_t item_count, activation_count;
    uint32_t codes_freed;       /* when the items were read, see python.h */
    uint32_t joins;             /* if not all are as in the last reading: how many may be */
    bool whole;                 /* it reached the outermost frame */
    bool items_cut;             /* there are more Python frames than items */
    uint64_t end;               /* where its outermost frame ends; of a whole walk 0 */
    uint32_t evaluators_beyond; /* frames of Python's evaluator beyond it */
    struct python_line line;    /* of the source described last */
    uint64_t serials;           /* so many numbers were given to mixed stacks: */
    uint64_t serial;            /* this one's, whatever its innermost instruction is, */
    uint64_t bare;              /* and its own without native frames in the innermost function */
    struct walk_step steps[CLIENT_STEPS];
    struct walk_mixed {
        uint32_t node;                        /* of the mixed stack; 0: it has changed since */
        uint32_t natives, items, activations; /* that are the same since, outermost ones */
        uint32_t count;                       /* frames of the mixed stack, */
        uint32_t inner;                       /* and those up to the innermost Python frame */
        uint32_t named;                       /* leading frames whose `node` is set, */
        uint32_t left_out;                    /* after so many that are too far out, */
        uint32_t beyond;                      /* below this node: 0, or REC_PC_CUT's */
    } last;
    struct walk_frame frames[CLIENT_NATIVES];   /* outermost first */
    struct walk_frame scratch[CLIENT_NATIVES];  /* of one in progress, innermost first */
    struct walk_word words[2 * CLIENT_NATIVES]; /* that the frames need, outermost first */
    struct mixed_frame mixed[CLIENT_NATIVES + CLIENT_ITEMS]; /* outermost first */
    struct python_item items[CLIENT_ITEMS];       /* of the last reading, outermost first */
    struct python_item fresh_items[CLIENT_ITEMS]; /* of one in progress, innermost first */
    struct python_activation activations[CLIENT_ITEMS];
    struct python_activation fresh_activations[CLIENT_ITEMS];
};

/* A node that the thread used lately; all zero: none. */
struct known_node {
    uint64_t pc; /* with its epoch */
    uint32_t parent, node;
};

#define CLIENT_KNOWN_BITS 7u

struct thread {
    struct writer writers[CLIENT_LEVELS];
    struct known_node known[1u << CLIENT_KNOWN_BITS];
    uint64_t stack_low, stack_high; /* the thread's own stack, as far as known */
    uint32_t lookups;               /* of stacks, which are costly */
    uint32_t number;
    int32_t tid;
    int64_t coarse;                  /* REC_CLOCK_COUNTER: the coarse clock at the last REC_CLOCK */
    uint64_t dropped, dropped_bytes; /* allocations since the last REC_LOSS */
    char name[16];
    char **spawn_environment; /* of the last program that a vfork child of this thread executed */
    struct thread *next;      /* in the list of structs that wait for a new thread */
    struct walk walk;         /* the last member: its frames need not be cleared */
};

/* An open zone of the library; all zero: none. See api.h. */
struct own_zone {
    pid_t pid;      /* the process that recorded its beginning */
    uint32_t depth; /* open zones of its thread, including it */
};

/* The running operator new or delete: calls that it makes are recorded under its name. */
struct label {
    struct origin origin;
    const uint64_t *frame; /* of the hook; NULL: none is running */
    unsigned how;
    bool own;         /* the operator's hook records its block, see hooks_new.c */
    size_t size;      /* then: the requested size */
    const void *made; /* the last block that malloc's hook recorded under this label */
    const void *gone; /* the block whose free is recorded already */
};

/*
 * A call of dlopen whose return is not seen, see hooks_load.c. Until its end tls.thread is NULL, so
 * that the thread's next event checks whether it has returned.
 */
struct loading {
    struct thread *thread; /* NULL: none */
    struct origin origin;  /* its caller */
    struct own_zone zone;
};

struct tls {
    struct thread *thread;
    uint32_t depth;   /* nested hooks, in handlers that interrupted one */
    uint64_t entered; /* in a hook: stack pointer of its caller; 0: not in a hook */
    uint32_t rounds;  /* rounds of thread-specific data destructors */
    uint32_t number;  /* the thread's number plus 1; 0: none */
    bool ended;       /* its last destructor has run */
    bool forking;     /* in the hook of fork, which counts the child */
    struct label label;
    bool drawn;       /* sampling: the numbers below are set */
    uint64_t skip;    /* bytes that may be allocated unchecked; 0: check all */
    uint64_t distant; /* the same with min_size, where all blocks are checked */
    uint64_t random;
    uint32_t small;         /* allocations below min_size not yet added to the header */
    uint32_t paused;        /* deliberately unrecorded allocations not yet added to the header, */
    uint64_t paused_bytes;  /* and their bytes */
    bool counts;            /* the counts below are added up at the thread's end */
    bool unwanted;          /* wanted.c: the thread is not recorded; */
    uint32_t asked;         /* number of checks, */
    uint32_t others;        /* and allocations not yet added to the header */
    uint32_t zones;         /* open ones in the recording */
    uint32_t zones_dropped; /* open ones that are not in the recording: the innermost */
    struct own_zone main;   /* of the main thread */
    uint32_t python_cell;   /* of python_states, with its thread state */
    struct loading loading;
    bool is_known;               /* it is in the list state.known: */
    struct tls *next, *previous; /* NULL at its ends */
};

extern __thread struct tls tls __attribute__((tls_model("initial-exec")));

enum phase {
    PHASE_NEW,      /* not initialised */
    PHASE_STARTING, /* real functions are looked up, the collector is contacted */
    PHASE_OFF,      /* hooks only call the real functions */
    PHASE_ON,
};

/* A chunk that a thread left and another one may continue. */
struct resting {
    struct rec_chunk *chunk;
    uint64_t stamp;
};

#define CLIENT_RESTING 64u
#define CLIENT_NODE_UNITS 4u
#define CLIENT_NODES 4088u /* per chunk */
_Static_assert(CLIENT_NODES ==
                   ((size_t)CLIENT_NODE_UNITS * REC_UNIT - sizeof(struct rec_chunk)) / 16,
               "a chunk of nodes is full of them");
#define CLIENT_NODE_CHUNKS 4096u
#define CLIENT_HEAD_TABLES 3u

struct state {
    _Atomic int phase; /* enum phase */
    pid_t pid;
    uint32_t clock; /* enum rec_clock */
    uint32_t depth;
    uint32_t pools; /* enum rec_pools */
    uint64_t min_size, sample;
    bool filtered;    /* sampling or min_size: not all blocks are recorded */
    bool drops;       /* REC_FULL_DROP, with a limit */
    bool by_thread;   /* only some threads' allocations are recorded, see wanted.c */
    bool sandboxed;   /* there is a system call filter */
    bool nameless;    /* a system call filter forbids reading a thread's name */
    bool follow;      /* record children */
    bool follow_exec; /* record programs that this process executes */
    bool free_stacks;
    bool no_python; /* do not read the frames of Python functions */
    struct rec_header *header;

    int file, socket;            /* -1: none */
    _Atomic uint32_t connecting; /* a lock: a thread is reopening both */
    dev_t file_device;
    ino_t file_inode, socket_inode;
    char socket_path[108]; /* empty: none */
    char file_path[1024];  /* empty: the file came over the socket */
    char threads[REC_THREADS_BYTES];
    char words[1024];     /* REC_ENV_OPTIONS, without the name */
    char preload[4096];   /* the library's entries of LD_PRELOAD */
    char run_words[1024]; /* REC_ENV_RUN */
    char collector[1024]; /* REC_ENV_COLLECTOR; empty: the one beside the library */
    char program[1024];   /* REC_ENV_PROGRAM; empty: record any program */
    bool named;           /* this one is REC_ENV_PROGRAM */
    bool left_alone;      /* another one is REC_ENV_PROGRAM */
    bool brief;           /* file_path is removed if the process ends within a second */
    bool spawned;         /* this process started the collector */
    bool expedited;       /* as in the header */
    bool unknown_threads; /* some may not be in the list `known` */
    bool is_left;         /* the recording has ended, and no thread uses it any more */

    _Atomic uint32_t lock;  /* guards the three lists below; never held across a system call */
    struct thread *waiting; /* unused thread structs */
    struct tls *known;      /* threads that use the recording, until they end */
    struct resting resting[CLIENT_RESTING];
    unsigned resting_count;
    _Atomic uint32_t thread_count;
    _Atomic uint32_t open_units, node_units; /* that no reader can release */
    _Atomic bool skips;                      /* there are, or were, blocks in skipped.c */
    bool has_key;
    unsigned key; /* pthread_key_t */

    /* Call stack nodes, see stacks.c. */
    _Atomic(_Atomic uint32_t *) heads[CLIENT_HEAD_TABLES]; /* NULL: not needed yet */
    uint32_t head_mask;                                    /* of the first table */
    uint64_t heads_most;                                   /* bytes of a table */
    _Atomic uint32_t node_count;
    _Atomic uint32_t growing;
    _Atomic(struct rec_node *) nodes[CLIENT_NODE_CHUNKS];

    /* Rules of unwinding, see unwind.c, */
    _Atomic uint64_t *rules;
    uint64_t address_mask; /* and unwind_machine.c: bits of an address, */
    uint64_t sigreturn;    /* where signal handlers return to; 0: no one place */

    /* Modules, see modules.c. */
    _Atomic uint32_t modules_lock;
    _Atomic uint32_t epoch;
    _Atomic uint64_t adds, subs; /* the dynamic linker's counters when the table was made */
    struct module *modules;
    uint32_t module_count, module_room, module_number;

    struct python *python_found;     /* see python.h: set once, */
    _Atomic(struct python *) python; /* and here if its frames may be read */

    int (*main)(int, char **, char **); /* the program's */
};

extern struct state state;

enum live {
    LIVE_OFF = 0,
    LIVE_ON = 1,
    LIVE_STOPPED = 2, /* no room: events are only counted */
};

/*
 * LIVE_ON while this process records. The page is wiped in children of fork, by whatever call, so a
 * child finds LIVE_OFF and cannot write into its parent's recording.
 */
struct live_page {
    _Atomic uint32_t on;
};

extern union live_union {
    struct live_page page;
    char bytes[CLIENT_PAGE];
} live;

/* The real functions: the next definitions after this library. NULL where there is none. */
struct real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    int (*malloc_trim)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    int (*brk)(void *);
    void *(*sbrk)(intptr_t);
    void *(*dlopen)(const char *, int);
    int (*dlclose)(void *);
    pid_t (*fork)(void);
    int (*bind)(int, const struct sockaddr *, socklen_t);
    int (*listen)(int, int);
    int (*execve)(const char *, char *const *, char *const *);
    int (*execvpe)(const char *, char *const *, char *const *);
    int (*fexecve)(int, char *const *, char *const *);
    int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const *, char *const *);
    int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                        const posix_spawnattr_t *, char *const *, char *const *);
    int (*system)(const char *);
    void *(*popen)(const char *, const char *); /* returns a FILE */
};

extern struct real real;

/* The same under a name that assembly can use: the C library's syscall, see hooks_sandbox.c. */
extern __attribute__((visibility("hidden"))) long (*real_syscall)(long, ...);

#endif
