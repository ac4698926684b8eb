/*
 * Symbolizes addresses of an ELF file with an index (symbols/index/index.h), in the format of
 * llvm-symbolizer: for each address the frames, innermost first, each as a line with the function
 * and a line with file and line, then an empty line. Reads addresses from standard input, in
 * hexadecimal, one a line.
 *
 *     index_lookup [-a ALTERNATE] [-p PACKAGE] [-d FOLDER] [-c CACHE] [-t THREADS] [-m] [-l] FILE
 *
 * -m: mangled names; -l: read only units that cover the addresses; -d: search .dwo files by their
 * basename there, else by the path that names them. Prints facts on standard error.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/outfile.h"
#include "base/vec.h"
#include "symbols/elf/elf_file.h"
#include "symbols/index/index.h"

#define MAX_FRAMES 256u

struct options {
    struct index_options index;
    const char *file, *alternate, *package, *folder, *cache;
    bool mangled, only_asked;
};

typedef VEC(uint64_t) address_list;

static int fail(const char *what, const struct err *e)
{
    fprintf(stderr, "index_lookup: %s: %s\n", what, e->text);
    return 1;
}

static struct elf_file *open_elf(const char *path, struct err *e)
{
    struct elf_file *f = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_errno(e, ERR_INPUT, "cannot open");
        return NULL;
    }
    if (elf_file_open(&f, fd, NULL, e) != 0)
        f = NULL;
    close(fd);
    return f;
}

static struct elf_file *open_split(void *user, const char *directory, const char *name, uint64_t id)
{
    const struct options *o = user;
    struct err e;
    char path[4096];
    const char *slash = strrchr(name, '/');
    (void)id;
    if (o->folder)
        snprintf(path, sizeof path, "%s/%s", o->folder, slash ? slash + 1 : name);
    else if (name[0] == '/')
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%s/%s", directory, name);
    return open_elf(path, &e);
}

static bool read_options(struct options *o, int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "a:p:d:c:t:ml")) != -1;) {
        switch (c) {
        case 'a':
            o->alternate = optarg;
            break;
        case 'p':
            o->package = optarg;
            break;
        case 'd':
            o->folder = optarg;
            break;
        case 'c':
            o->cache = optarg;
            break;
        case 't':
            o->index.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            o->mangled = true;
            break;
        case 'l':
            o->only_asked = true;
            break;
        default:
            return false;
        }
    }
    o->file = argv[optind];
    return optind + 1 == argc;
}

static bool read_addresses(address_list *list)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (!vec_push(list, strtoull(line, NULL, 16)))
            return false;
    }
    return true;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_view(struct view v)
{
    if (v.len > 0)
        fwrite(v.p, 1, v.len, stdout);
    else
        fputs("??", stdout);
}

static void print_frames(struct symbol_index *x, uint64_t address, bool mangled)
{
    struct symbol_frame frames[MAX_FRAMES];
    size_t n;
    if (!symbol_index_lookup(x, address, frames, MAX_FRAMES, &n)) {
        fputs("??\n??:0:0\n\n", stdout);
        return;
    }
    for (size_t i = 0; i < n && i < MAX_FRAMES; i++) {
        print_view(mangled ? frames[i].linkage : frames[i].function);
        putchar('\n');
        print_view(frames[i].file);
        printf(":%" PRIu32 ":%" PRIu32 "\n", frames[i].line, frames[i].column);
    }
    putchar('\n');
}

static void print_facts(const struct symbol_index *x, bool loaded, double built, double all)
{
    struct index_facts f;
    symbol_index_facts(x, &f);
    fprintf(stderr,
            "by %s: %zu units, %zu built, %zu incomplete, %zu splits missing, %" PRIu64
            " bytes, %.3f s to build, %.3f s in all%s%s\n",
            loaded ? "a cache" : "libdw", f.units, f.units_built, f.units_incomplete,
            f.splits_missing, f.bytes, built, all, f.first_fault[0] ? "; " : "", f.first_fault);
}

static struct view cache_key(const struct elf_file *f, struct elf_key *key)
{
    memset(key, 0, sizeof *key);
    elf_file_key(f, key);
    return (struct view){(const char *)key, sizeof *key};
}

/* Loads it from the cache if it is there and has all that is needed; else builds it. */
static int get_index(struct symbol_index **x, struct options *o, struct elf_file *f, bool *loaded,
                     struct err *e)
{
    struct elf_file *alternate = NULL;
    struct elf_key key;
    int fd = o->cache ? open(o->cache, O_RDONLY | O_CLOEXEC) : -1;
    *loaded = fd >= 0 && symbol_index_load(x, fd, cache_key(f, &key), e) == 0;
    if (fd >= 0)
        close(fd);
    if (*loaded && !symbol_index_lacks(*x, o->index.addresses, o->index.n_addresses))
        return 0;
    if (o->alternate && !(alternate = open_elf(o->alternate, e)))
        return err_prefix(e, "%s", o->alternate);
    if (o->package && !(o->index.package = open_elf(o->package, e)))
        return err_prefix(e, "%s", o->package);
    if (!o->only_asked) {
        o->index.addresses = NULL;
        o->index.n_addresses = 0;
    }
    int status = *loaded ? symbol_index_extend(*x, f, alternate, &o->index, e)
                         : symbol_index_build(x, f, alternate, &o->index, e);
    *loaded = false;
    elf_file_close(alternate);
    elf_file_close(o->index.package);
    return status;
}

static int save(const struct symbol_index *x, const struct options *o, const struct elf_file *f,
                struct err *e)
{
    struct elf_key key;
    struct outfile out;
    if (outfile_open(&out, o->cache, true, e) != 0)
        return -1;
    if (symbol_index_save(x, out.fd, cache_key(f, &key), e) == 0)
        return outfile_commit(&out, e);
    outfile_abort(&out);
    return -1;
}

int main(int argc, char **argv)
{
    struct options o = {.index.open_split = open_split, .index.user = &o};
    struct symbol_index *x = NULL;
    address_list list = {0};
    struct err e = {0};
    bool loaded;
    if (!read_options(&o, argc, argv) || !read_addresses(&list)) {
        fputs("index_lookup: wrong arguments\n", stderr);
        return 2;
    }
    double began = seconds();
    struct elf_file *f = open_elf(o.file, &e);
    o.index.addresses = list.at;
    o.index.n_addresses = list.len;
    if (!f || get_index(&x, &o, f, &loaded, &e) != 0)
        return fail(o.file, &e);
    double built = seconds() - began;
    for (size_t i = 0; i < list.len; i++)
        print_frames(x, list.at[i], o.mangled);
    fflush(stdout);
    print_facts(x, loaded, built, seconds() - began);
    if (o.cache && !loaded && save(x, &o, f, &e) != 0)
        return fail(o.cache, &e);
    symbol_index_free(x);
    elf_file_close(f);
    vec_release(&list);
    return 0;
}
