#pragma once

/*
 * The recording of one process, and how the preload library connects to its collector.
 *
 * `libtidemark.so` (client/) writes recordings, `tidemark run` reads them, and both run on one
 * host: numbers are little-endian words in natural alignment, times are clocks of that host. This
 * header has constants and structs only, and needs nothing but the C library.
 *
 * ## The file
 *
 *   unit 0           struct rec_header, padded to REC_UNIT
 *   units 1 …        chunks, each of 1 to REC_CHUNK_UNITS whole units, in the order in which they
 *                    were taken
 *
 * The library maps chunks shared, so what it wrote is in the file however the process ends: the
 * file is its own journal. Space is reserved with fallocate() before it is mapped; a full disk is
 * a counted loss and never SIGBUS. The reader must not truncate the file while the process lives
 * (it may punch holes into closed chunks that it has read).
 *
 * The library first raises `header.units_taken`, then reserves space, then writes the chunk's
 * header, `magic` last. A reader goes from unit to unit: if a unit has no REC_CHUNK_MAGIC (a chunk
 * being made, or one that was abandoned), it continues with the next unit; else it skips
 * `chunk.units`. Units at or beyond `units_taken`, or beyond the file's end, are empty. A live
 * reader checks such gaps again later.
 *
 * ## Chunks of events (REC_CHUNK_EVENTS)
 *
 * One thread writes a chunk at a time. `committed` bytes after the header are whole records; it is
 * stored with release order after each record. When a thread ends, another one may continue its
 * half-full chunk: REC_OWNER marks this. The state that records build on (stamp, address, below)
 * is reset in each chunk, so a chunk can be read alone.
 *
 * ### Records
 *
 * A record begins with a byte: its low 5 bits are the kind (enum rec_kind), the upper 3 are flags
 * whose meaning depends on the kind. "varint": 7 bits per byte, low ones first, bit 7 set: more
 * follow, at most 10 bytes. "zigzag": a signed number n as varint of (n << 1) ^ (n >> 63).
 *
 *   stamp    varint, added to the stamp of the previous record; the first one to base_stamp
 *   address  zigzag, added to the address of the previous record in this chunk (of any kind with an
 *            address); the first one, and the first one after REC_OWNER, to 0. With REC_FLAG_BY16
 *            it counts in units of 16 bytes
 *   how      a byte, enum rec_how; only with REC_FLAG_HOW, else REC_HOW_MALLOC for allocations and
 *            REC_HOW_FREE for frees
 *   pool     varint, pool number; only with REC_FLAG_POOL, else 0: the heap
 *   stack    varint, node number of the innermost frame, 0: unknown
 *   text     varint length, then as many bytes, without a terminating NUL
 *
 * Kinds below REC_SIZED_KINDS (the frequent ones):
 *
 *   REC_ALLOC       stamp, [how], [pool], address, size as varint (bytes), stack
 *   REC_FREE        stamp, [how], [pool], address
 *   REC_FREE_STACK  stamp, [how], [pool], address, stack
 *   REC_PUT_BACK    stamp, [how], [pool], address: the realloc of this thread that freed the block
 *                   failed; the block lives on with the size and the call stack that it had
 *
 * All others have, after the first byte, a varint with the length of their body in bytes. A reader
 * skips unknown kinds, and unknown bytes at the end of a body. Every body begins with a stamp:
 *
 *   REC_OWNER          stamp, thread number, kernel's thread id: what follows is of that thread
 *   REC_THREAD_NAME    stamp, text: the name of this thread, from here on
 *   REC_THREAD_EXIT    stamp: this thread ends (a few records of late destructors may follow)
 *   REC_CLOCK          stamp, nanoseconds of CLOCK_MONOTONIC as varint
 *   REC_MODULE_LOAD    stamp, module number, epoch, bias, text path, text build id (raw bytes),
 *                      count of segments, then of each: address (link time), bytes in memory,
 *                      offset in the file, flags (PF_*), bytes in the file; without a build id,
 *                      where it is known: device, inode, size and mtime (ns) of the file. The
 *                      program itself has an empty path: header.exe
 *   REC_MODULE_UNLOAD  stamp, module number, epoch: the first one in which it is gone
 *   REC_FORK           stamp, pid of the child (0: unknown), 1 if it is followed, else 0
 *   REC_EXEC           stamp, text path: exec was called; when it fails, the program goes on
 *   REC_SPAWN          stamp, pid of the child, 1 if it is followed, text path: posix_spawn
 *   REC_LOSS           stamp, enum rec_loss, count, bytes: what this thread lost here
 *   REC_POOL           stamp, pool number (1 and up), text name; before the pool's first event
 *   REC_MESSAGE        stamp, colour (0: none), stack, text
 *   REC_PLOT           stamp, 8 bytes of a little-endian double, text name
 *   REC_FRAME          stamp, enum rec_frame, text name (empty: the frame set of the program)
 *   REC_ZONE_BEGIN     stamp, line, colour, stack, text name, text function, text file
 *   REC_ZONE_END       stamp
 *   REC_ZONE_TEXT      stamp, text: of the innermost zone of this thread that is open
 *   REC_DISCARD        stamp, pool number, stack: all blocks of the pool are gone
 *   REC_SOURCE         stamp, source number (1 and up), line, text function, text file: a frame of
 *                      an interpreted function; before the first record with a stack that has it
 *   REC_PAUSE          stamp, 1: the program paused the recording of allocations, 0: it goes on
 *
 * Numbers without a type are varints.
 *
 * ## Order
 *
 * Stamps within a chunk never decrease. A free and the first half of a realloc are stamped and
 * committed before the real call, an allocation after it. So sorting all records by stamp (equal
 * stamps: those of a thread in its order) gives an order in which no block is allocated before its
 * address was freed. The source of stamps is `header.clock`:
 *
 *   REC_CLOCK_TSC      x86's time stamp counter, invariant and what the kernel's clock is made of
 *   REC_CLOCK_COUNTER  a number that each event of the process increments; times come from
 *                      REC_CLOCK records, the chunks' (base_stamp, base_ns) and the header's pairs
 *
 * A live reader reads the clock (the TSC, or `header.counter` + 1, the next stamp), then calls
 * membarrier, then reads `pending` and `committed` of every open chunk, new ones included. It takes
 * the minimum of that clock and of the `pending` values other than REC_IDLE: all records with lower
 * stamps are committed then, and the minimum never decreases later. This needs no fence in the
 * hooks: `pending` is stored before the stamp is read, and stores retired before the barrier are
 * visible after it. MEMBARRIER_CMD_GLOBAL waits for all processors, some milliseconds;
 * MEMBARRIER_CMD_GLOBAL_EXPEDITED interrupts those that run a registered process, and
 * `header.expedited` means that this one is registered. When the process has ended, everything
 * committed is all there is.
 *
 * ## Bounds
 *
 * `options.file_bytes` limits the units that are taken and not released, header included. With
 * REC_FULL_STOP the recording ends at the limit. Otherwise two things may exceed it, since reading
 * cannot release them: chunks of nodes, and twice the chunks that threads have open; so no thread
 * waits for itself. With REC_FULL_DROP frees are not limited: they are of recorded blocks, so they
 * are few. Allocations and data that programs send are dropped while there is no room, and counted
 * in `header.dropped`; REC_LOSS marks the places.
 *
 * ## Chunks of call stack nodes (REC_CHUNK_NODES)
 *
 * An array of struct rec_node after the header, as many as fit. The first one's number is
 * `first_node`. A call stack is a node: its program counter, and the number of its caller's node,
 * 0 for none. Node 0 does not exist. A node whose `pc` is 0 is not written yet; all nodes that a
 * committed record refers to are written. A stack with more frames than `options.depth` ends in a
 * node without a parent, whose `pc` is REC_PC_CUT.
 *
 * The low 48 bits of `pc` are the address: the return address of a call, or with REC_NODE_EXACT in
 * `parent` the address itself (the frame that a signal interrupted). The upper 16 bits are the
 * epoch in which the address was seen: a module that was loaded in epoch L and unloaded in epoch U
 * covers nodes of epochs L to U - 1. A new epoch begins whenever a module is unloaded, so an
 * address that another module reuses is distinct. Epochs stop at 65,535.
 *
 * With REC_NODE_SOURCE in `parent`, `pc` is the number of a REC_SOURCE record instead.
 */

#include <stdatomic.h>
#include <stdint.h>

#define REC_MAGIC "TMRECORD" /* 8 bytes */
#define REC_VERSION 1u
#define REC_CHUNK_MAGIC 0x4b484354u /* "TCHK" */

#define REC_UNIT 16384u
#define REC_CHUNK_UNITS 16u  /* of the largest chunk: 256 KiB */
#define REC_RECORD_MAX 8192u /* bytes of the longest record */

#define REC_IDLE UINT64_MAX

enum rec_kind {
    REC_NOTHING = 0, /* not a record; appears only in damaged files */
    REC_ALLOC = 1,
    REC_FREE = 2,
    REC_FREE_STACK = 3,
    REC_PUT_BACK = 4,
    REC_SIZED_KINDS = 8, /* this kind and all above have a length */
    REC_OWNER = 8,
    REC_THREAD_NAME = 9,
    REC_THREAD_EXIT = 10,
    REC_CLOCK = 11,
    REC_MODULE_LOAD = 12,
    REC_MODULE_UNLOAD = 13,
    REC_FORK = 14,
    REC_EXEC = 15,
    REC_SPAWN = 16,
    REC_LOSS = 17,
    REC_POOL = 18,
    REC_MESSAGE = 19,
    REC_PLOT = 20,
    REC_FRAME = 21,
    REC_ZONE_BEGIN = 22,
    REC_ZONE_END = 23,
    REC_DISCARD = 24,
    REC_PAUSE = 25,
    REC_ZONE_TEXT = 26,
    REC_SOURCE = 27,
    REC_KIND_MASK = 0x1f,
};

/* For kinds that are not sized. */
enum rec_flag {
    REC_FLAG_BY16 = 0x20,
    REC_FLAG_HOW = 0x40,
    REC_FLAG_POOL = 0x80,
};

/* The function that the program called. */
enum rec_how {
    REC_HOW_MALLOC = 0,
    REC_HOW_CALLOC = 1,
    REC_HOW_REALLOC = 2, /* and reallocarray */
    REC_HOW_ALIGNED = 3, /* aligned_alloc, posix_memalign, memalign, valloc, pvalloc */
    REC_HOW_NEW = 4,
    REC_HOW_NEW_ARRAY = 5,
    REC_HOW_MMAP = 6,
    REC_HOW_MREMAP = 7,
    REC_HOW_BRK = 8,
    REC_HOW_API = 9, /* tidemark.h */
    REC_HOW_GPU = 10,

    REC_HOW_FREE = 0,
    REC_HOW_DELETE = 4,
    REC_HOW_DELETE_ARRAY = 5,
    REC_HOW_MUNMAP = 6,
};

enum rec_loss {
    REC_LOSS_NESTED = 0, /* events of nested signal handlers in hooks */
    REC_LOSS_SPACE = 1,  /* no room in the file */
    REC_LOSS_MEMORY = 2, /* no memory for a thread's state */
    REC_LOSS_STACK = 3,  /* recorded events without their call stack */
    REC_LOSSES = 4,      /* the number of kinds that the header counts in `lost` */
    REC_LOSS_FULL = 4,   /* REC_FULL_DROP; the header counts them in `dropped` */
};

enum rec_frame {
    REC_FRAME_MARK = 0,
    REC_FRAME_START = 1,
    REC_FRAME_END = 2,
};

enum rec_clock {
    REC_CLOCK_TSC = 1,
    REC_CLOCK_COUNTER = 2,
};

enum rec_state {
    REC_STATE_NEW = 0,       /* not set up yet: holds nothing */
    REC_STATE_RECORDING = 1, /* in an ended process: it was killed, or called _exit */
    REC_STATE_EXITING = 2,   /* exit handlers run or have run; events may still follow */
    REC_STATE_FULL = 3,      /* no room at header.end_stamp: complete up to there, not after */
    REC_STATE_EXEC = 4,      /* exec was called and has not returned */
};

enum rec_arch {
    REC_ARCH_X86_64 = 1,
    REC_ARCH_AARCH64 = 2,
};

/* What to record; the collector's answer to the hello. 0 in any field: its default. */
struct rec_options {
    uint32_t size;         /* of this struct in the writer's version */
    uint32_t flags;        /* enum rec_option_flag */
    uint32_t depth;        /* frames of a call stack, 1 to REC_DEPTH_MAX; default REC_DEPTH */
    uint32_t pools;        /* enum rec_pools; default REC_POOLS_HEAP */
    uint64_t min_size;     /* bytes; smaller blocks are not recorded */
    uint64_t sample_bytes; /* mean bytes between two samples; 0: record every block */
    uint64_t sample_seed;  /* seed of the sampling; 0: taken from the clock */
    uint64_t file_bytes;   /* see "Bounds"; 0: limited by the disk only */
    uint32_t when_full;    /* enum rec_when_full */
    uint32_t reserved_word;
    uint64_t reserved[9];
};

#define REC_DEPTH 64u
#define REC_DEPTH_MAX 255u
/* The pc of the node that represents callers beyond `depth`; not a code address. */
#define REC_PC_CUT 1u

enum rec_option_flag {
    REC_OPTION_FOLLOW_FORK = 1 << 0, /* children of fork and exec connect to the collector, too */
    REC_OPTION_FREE_STACKS = 1 << 1, /* frees have call stacks */
    REC_OPTION_GPU = 1 << 2,
    REC_OPTION_PAUSED = 1 << 3,      /* record nothing until header.control changes */
    REC_OPTION_COUNTER = 1 << 5,     /* REC_CLOCK_COUNTER even if the TSC could be used */
    REC_OPTION_ATTACHED = 1 << 6,    /* REC_ORIGIN_ATTACH: earlier blocks are unknown */
    REC_OPTION_CLIENT = 1 << 7,      /* exit waits briefly for header.client_served */
    REC_OPTION_NO_PYTHON = 1 << 8,   /* do not read the frames of Python functions */
    REC_OPTION_LOOK = 1 << 9,        /* exit asks for a look at the memory, see REC_ASK_LOOK */
    REC_OPTION_FOLLOW_EXEC = 1 << 4, /* programs that this process, not a fork of it, executes
                                        connect, too: a script or wrapper becomes its program */
};

enum rec_pools {
    REC_POOLS_HEAP = 1 << 0,
    REC_POOLS_MMAP = 1 << 1, /* pool 1, "mmap": mappings and the program break */
};

enum rec_when_full {
    REC_FULL_STOP = 0, /* the recording ends there */
    REC_FULL_WAIT = 1, /* the program waits until the collector has released units */
    REC_FULL_DROP = 2, /* allocations are dropped and counted meanwhile, with their frees */
};

struct rec_pair {
    uint64_t stamp;
    uint64_t ns; /* CLOCK_MONOTONIC */
};

#define REC_POOLS_COUNTED 256u
#define REC_THREADS_BYTES 512u
#define REC_UNSEEN_BYTES 512u

struct rec_header {
    char magic[8];
    uint32_t version;
    uint32_t unit;               /* REC_UNIT */
    uint32_t arch;               /* enum rec_arch */
    uint32_t clock;              /* enum rec_clock */
    int32_t pid, ppid;           /* in the process's own pid namespace */
    uint64_t realtime_ns;        /* CLOCK_REALTIME at `first` */
    struct rec_pair first, last; /* last: zero until the process exits */
    struct rec_options options;
    char exe[1024]; /* path of the program, truncated if longer; NUL-terminated */

    /* Written by the library, read by the collector. */
    _Alignas(64) _Atomic uint32_t state; /* enum rec_state */
    _Atomic uint32_t units_taken;        /* unit 0 included */
    _Atomic uint64_t end_stamp;          /* of REC_STATE_FULL */
    _Atomic uint32_t end_errno;          /* why: ENOSPC, EPERM (seccomp(2)), ENOBUFS (limit), … */
    _Atomic uint32_t threads;            /* number of thread numbers given */
    _Atomic uint32_t epoch;
    _Atomic uint32_t children;          /* not followed: forks and spawns */
    _Atomic uint32_t early_allocations; /* from before the recording began, not in it */
    struct {
        _Atomic uint64_t allocations, bytes, frees;
    } lost[REC_LOSSES];
    _Atomic uint64_t too_small; /* allocations below min_size, behind by up to 255 per thread */

    /* Written by the collector, read by the library. */
    _Alignas(64) _Atomic uint32_t released; /* units whose space was freed */
    _Atomic uint32_t control;               /* enum rec_control */

    /*
     * For REC_CLOCK_COUNTER; in a separate cache line, since every event of every thread writes
     * it.
     */
    _Alignas(64) _Atomic uint64_t counter;

    /* By the library again. For the pool with that number; the last one: for all further pools. */
    _Alignas(64) struct {
        _Atomic uint64_t allocations, bytes;
    } dropped[REC_POOLS_COUNTED];
    _Atomic uint64_t dropped_notes; /* zones, messages and plots */
    /* Not recorded because of REC_CONTROL_PAUSE; behind by up to 63 allocations per thread. */
    _Atomic uint64_t paused_allocations, paused_bytes;
    _Atomic uint64_t others;              /* allocations of threads other than these: */
    char only_threads[REC_THREADS_BYTES]; /* as in the welcome */
    /* The process is registered for MEMBARRIER_CMD_GLOBAL_EXPEDITED, see "Order". */
    _Atomic uint32_t expedited;
    /*
     * Libraries loaded with RTLD_DEEPBIND: allocations of their constructors are not recorded, but
     * their frees are.
     */
    _Atomic uint32_t deep_libraries;
    /*
     * Such libraries that could not be recorded: with their own allocator, or whose loading was not
     * seen.
     */
    _Atomic uint32_t deep_unseen;
    /*
     * Functions of an allocator that modules may call and that are not recorded, comma-separated.
     */
    char unseen[REC_UNSEEN_BYTES];
    _Atomic uint64_t failed_allocations; /* calls that failed because memory was short */
    /* Calls of exec without the library's variables: a limit leaves no memory for them. */
    _Atomic uint32_t bare_execs;
    /* TCP port at which the first Tracy client in the program listens; 0: none does. */
    _Atomic uint32_t client_port;
    /* By the collector: that client has a server, or will not get one. */
    _Atomic uint32_t client_served;
    /* The CPython in this process: 0x030b for 3.11, 1 for one before that; 0: none. */
    _Atomic uint32_t python;
    _Atomic uint32_t python_state;  /* enum rec_python */
    _Atomic uint64_t python_unread; /* call stacks whose Python frames could not be read: */
    /* the same of threads without the GIL whose state cannot be read then, */
    _Atomic uint64_t python_unheld;
    /* and of threads in subinterpreters, or without the GIL while there are subinterpreters. */
    _Atomic uint64_t python_subinterpreters;
    /* By the collector: it has looked at the pages, or does not. */
    _Atomic uint32_t looked;
    /* Calls of malloc_trim, and those of them that returned no memory to the kernel. */
    _Atomic uint64_t trims, trims_empty;
};

/* The versions whose frames are read. */
#define PYTHON_VERSIONS "3.8 to 3.14"

enum rec_python {
    REC_PYTHON_UNKNOWN = 0,  /* there is none, or its frames cannot be read */
    REC_PYTHON_READY = 1,    /* no Python code was seen so far */
    REC_PYTHON_MALLOC = 2,   /* objects come from malloc */
    REC_PYTHON_PYMALLOC = 3, /* small objects come from pymalloc, which takes arenas */
};

enum rec_control {
    REC_CONTROL_GO = 0,
    REC_CONTROL_PAUSE = 1, /* allocations are not recorded; frees still are */
    REC_CONTROL_HOLD = 2,  /* the same, uncounted, while hooks are being installed */
};

enum rec_chunk_kind {
    REC_CHUNK_EVENTS = 1,
    REC_CHUNK_NODES = 2,
};

enum rec_chunk_state {
    REC_CHUNK_OPEN = 1,    /* one thread writes it; nodes: any thread */
    REC_CHUNK_RESTING = 2, /* its thread ended; another one may continue it */
    REC_CHUNK_CLOSED = 3,  /* nothing is added any more */
};

/* Followed by `units` * REC_UNIT - sizeof(struct rec_chunk) bytes. */
struct rec_chunk {
    _Atomic uint32_t magic;
    uint16_t kind; /* enum rec_chunk_kind */
    uint16_t units;
    uint32_t thread;     /* number of the first owner */
    int32_t tid;         /* its kernel thread id */
    uint32_t first_node; /* of REC_CHUNK_NODES */
    uint32_t level;      /* 0; 1: events of signal handlers that interrupted a hook */
    uint64_t base_stamp;
    uint64_t base_ns; /* CLOCK_MONOTONIC at base_stamp */
    uint64_t reserved[3];

    _Atomic uint32_t committed; /* bytes after this header; nodes: not used */
    _Atomic uint32_t state;     /* enum rec_chunk_state */
    _Atomic uint64_t pending;   /* REC_IDLE, or at most the stamp of the record in progress */
    uint64_t reserved_hot[6];
};

struct rec_node {
    _Atomic uint64_t pc; /* low 48 bits: address; upper 16: epoch */
    uint32_t parent;     /* REC_NODE_EXACT or REC_NODE_SOURCE, and the caller's number */
    uint32_t next;       /* for the library: the next node with this hash */
};

#define REC_NODE_EXACT 0x80000000u
#define REC_NODE_SOURCE 0x40000000u
#define REC_NODE_MASK 0x3fffffffu
#define REC_ADDRESS_BITS 48

_Static_assert(sizeof(struct rec_pair) == 16, "rec_pair has no padding");
_Static_assert(sizeof(struct rec_options) == 128, "the options keep their size");
_Static_assert(sizeof(struct rec_header) <= REC_UNIT, "the header fits a unit");
_Static_assert(sizeof(struct rec_chunk) == 128, "a chunk's header is two cache lines");
_Static_assert(sizeof(struct rec_node) == 16, "rec_node has no padding");

/*
 * ## Connecting to the collector
 *
 * The collector listens on a SOCK_SEQPACKET Unix socket whose path is in REC_ENV_SOCKET (a leading
 * '@': an abstract name). A process connects, sends a struct rec_hello and receives a struct
 * rec_welcome. If `accepted` is 1, a descriptor of its recording file comes with it (SCM_RIGHTS):
 * open for reading and writing, of zero length, without O_APPEND. The library writes all of the
 * file, header included.
 *
 * The library keeps the connection open and does not use it again: its end informs the collector
 * that the program has ended, if the header has REC_STATE_EXEC or the process is gone. (A child of
 * fork may hold it a little longer, and a program may close descriptors that it does not know, so
 * the collector also uses pidfd_open. A process that needs its file again sends REC_ORIGIN_AGAIN.)
 * If no answer arrives within REC_ANSWER_MS, or `accepted` is 0, nothing is recorded and the hooks
 * only call the real functions.
 *
 * With REC_OPTION_LOOK, a process that exits sends REC_ASK_LOOK, 4 bytes, over the same connection
 * and waits for header.looked, so that the collector can read its pages, and what the kernel
 * counts, before they are gone.
 *
 * The process removes REC_ENV_SOCKET, REC_ENV_FILE and its entry of LD_PRELOAD from its
 * environment; with REC_OPTION_FOLLOW_FORK the library adds them again for programs that the
 * process executes.
 *
 * Without REC_ENV_SOCKET, REC_ENV_FILE names a file to create ("%p": the pid), with the options of
 * REC_ENV_OPTIONS: comma-separated words NAME=NUMBER, with the names depth, min-size, sample,
 * seed, pools, bytes, flags.
 *
 * Without either, the library starts a collector: the program REC_ENV_COLLECTOR, or the `tidemark`
 * that belongs to the library, as `run --listen --report none --adopt-after 1 OPTIONS --adopt
 * PID`, where OPTIONS are those of REC_ENV_RUN, separated by spaces. The collector prints the path
 * of its socket as a line on standard output, or '!' and the reason why it does not record.
 * REC_ENV_RUN=off disables recording. REC_ENV_PROGRAM names the only program to record, then with
 * --adopt-after 0; in all others the library leaves the environment unchanged.
 */

#define REC_ENV_SOCKET "TIDEMARK_SOCKET"
#define REC_ENV_RUN "TIDEMARK_RUN"
#define REC_ENV_PROGRAM "TIDEMARK_PROGRAM"
#define REC_ENV_COLLECTOR "TIDEMARK_COLLECTOR"
#define REC_ENV_FILE "TIDEMARK_FILE"
#define REC_ENV_OPTIONS "TIDEMARK_OPTIONS"
#define REC_ANSWER_MS 10000
#define REC_ASK_LOOK 0x4b4f4f4cu /* "LOOK" */

enum rec_origin {
    REC_ORIGIN_EXEC = 0,   /* the library was loaded at the program's start */
    REC_ORIGIN_FORK = 1,   /* a fork of a recorded process */
    REC_ORIGIN_AGAIN = 2,  /* the program closed the descriptors: requests the same file again */
    REC_ORIGIN_ATTACH = 3, /* the library was loaded into a running process */
};

/*
 * A listener of Tidemark at TCP port N has a Unix stream socket with the abstract name
 * REC_PORT_NAME N. A program that cannot bind N connects there; the listener closes that connection
 * when it has released the port.
 */
#define REC_PORT_NAME "tidemark.port."

/*
 * Functions called in a running process after the library was loaded into it; the first one gets
 * the path of the socket. Both return enum rec_attach.
 */
#define REC_ATTACH "tidemark_attach_1"
#define REC_DETACH "tidemark_detach_1"
#define REC_STORED "tidemark_stored_1"

enum rec_attach {
    REC_ATTACH_DONE = 0,
    REC_ATTACH_REFUSED = 1,  /* by the collector, or memory is short */
    REC_ATTACH_RECORDED = 2, /* a recording is running */
    REC_ATTACH_UNKNOWN = 3,  /* the process's malloc or free was not found */
    REC_ATTACH_BUSY = 4,     /* threads are still in hooks of the previous recording */
};

/*
 * REC_STORED returns the address of this struct in the process: the functions that were hooked in
 * modules' slots, so that the collector can find copies of their addresses elsewhere. The library's
 * own memory keeps the real addresses and is skipped.
 */
#define REC_STORED_MOST 128u

struct rec_stored {
    uint32_t count, own_count; /* of `at` and `own` */
    struct {
        uint64_t real, hook;
    } at[REC_STORED_MOST];
    struct {
        uint64_t low, high;
    } own[2];
};

struct rec_hello {
    char magic[8]; /* REC_MAGIC */
    uint32_t version;
    uint32_t arch;
    int32_t pid, ppid;
    uint32_t origin; /* enum rec_origin */
    uint32_t reserved;
    uint64_t start_ns;   /* CLOCK_MONOTONIC */
    uint64_t fork_stamp; /* REC_ORIGIN_FORK with REC_CLOCK_TSC: stamp in the parent's recording */
    char exe[1024];      /* truncated if longer; NUL-terminated */
};

struct rec_welcome {
    char magic[8]; /* REC_MAGIC */
    uint32_t version;
    uint32_t accepted; /* 1: record into the descriptor; 0: do nothing */
    struct rec_options options;
    /* May be missing. Whose allocations to record, see client/wanted.h; empty: all threads'. */
    char threads[REC_THREADS_BYTES];
};
