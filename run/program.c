#include "run/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/view.h"
#include "symbols/elf/elf_file.h"

/* As in the kernel: an interpreter may be a script itself, up to this depth (fs/exec.c). */
#define SCRIPTS_MAX 5u

/* No significant name is longer. */
#define SYMBOL_NAME_MAX 64u

/* Bytes of a file that the kernel reads to determine its format (BINPRM_BUF_SIZE). */
#define HEAD_SIZE 256u

#if defined __x86_64__
#define OUR_MACHINE EM_X86_64
#elif defined __aarch64__
#define OUR_MACHINE EM_AARCH64
#elif defined __riscv
#define OUR_MACHINE EM_RISCV
#elif defined __powerpc64__
#define OUR_MACHINE EM_PPC64
#else
#define OUR_MACHINE EM_NONE
#endif

/* ---- finding the file */

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

/* "DIR/NAME" for an element of PATH; an empty one is the working folder. */
static char *join(const char *dir, size_t len, const char *name)
{
    struct buf b = {0};
    buf_put(&b, dir, len);
    if (len && dir[len - 1] != '/')
        buf_puts(&b, "/");
    else if (len == 0)
        buf_puts(&b, "./");
    buf_puts(&b, name);
    char *path = strdup(buf_str(&b));
    if (b.failed) {
        free(path);
        path = NULL;
    }
    buf_release(&b);
    return path;
}

/* As shells do: the first executable file, else the first existing one. */
static int search(struct program *p, const char *name, struct err *e)
{
    const char *at = getenv("PATH");
    if (!at)
        at = "/usr/local/bin:/usr/bin:/bin";
    for (;; at++) {
        size_t len = strcspn(at, ":");
        char *path = join(at, len, name);
        if (!path)
            return err_no_memory(e, "the program's path");
        bool fits = is_file(path);
        if (fits && access(path, X_OK) == 0) {
            free(p->path);
            p->path = path;
            return 0;
        }
        if (fits && !p->path)
            p->path = path;
        else
            free(path);
        at += len;
        if (!*at)
            return 0;
    }
}

static int find(struct program *p, const char *name, struct err *e)
{
    if (strchr(name, '/')) {
        p->path = strdup(name);
        if (!p->path)
            return err_no_memory(e, "the program's path");
    } else if (search(p, name, e) != 0) {
        return -1;
    }
    if (!p->path || !*name || access(p->path, F_OK) != 0) {
        p->missing = !p->path || !*name || errno == ENOENT || errno == ENOTDIR;
        return err_set(e, ERR_OUTPUT, "%s: %s", name,
                       p->path && *name ? strerror(errno) : "no such program");
    }
    if (!is_file(p->path))
        return err_set(e, ERR_OUTPUT, "%s is a folder", p->path);
    return access(p->path, X_OK) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "%s", p->path);
}

/* ---- examining the file */

/* "#! INTERPRETER [ARGUMENT]": the interpreter, allocated; NULL when the file is no script. */
static char *interpreter_of(const char *head, size_t n)
{
    if (n < 2 || head[0] != '#' || head[1] != '!')
        return NULL;
    const char *p = head + 2, *end = head + n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *q = p;
    while (q < end && *q != ' ' && *q != '\t' && *q != '\n' && *q)
        q++;
    return q == p ? NULL : strndup(p, (size_t)(q - p));
}

/* Whether the dynamic linker runs in secure-execution mode, in which it ignores LD_PRELOAD. */
static bool is_privileged(int fd)
{
    struct stat st;
    struct statvfs fs;
    if (fstat(fd, &st) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
        (fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_NOSUID))
        return false;
    if ((st.st_mode & S_ISUID && st.st_uid != getuid()) ||
        (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getgid()))
        return true;
    return getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/*
 * The dynamic linker that the program headers name; empty: none. Needs a header as long as it
 * states.
 */
static struct view linker_of(const struct elf_file *f)
{
    struct view bytes = elf_file_bytes(f), none = {0};
    Elf64_Ehdr header;
    if (bytes.len < sizeof header)
        return none;
    memcpy(&header, bytes.p, sizeof header);
    if (header.e_phentsize < sizeof(Elf64_Phdr) || header.e_phoff > bytes.len)
        return none;
    struct cursor c = cursor_over(bytes.p + header.e_phoff, bytes.len - (size_t)header.e_phoff);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        const uint8_t *at = cursor_take(&c, header.e_phentsize);
        Elf64_Phdr segment;
        if (!at)
            return none;
        memcpy(&segment, at, sizeof segment);
        if (segment.p_type != PT_INTERP)
            continue;
        bool within =
            segment.p_offset <= bytes.len && segment.p_filesz <= bytes.len - segment.p_offset;
        return within ? (struct view){bytes.p + segment.p_offset, (size_t)segment.p_filesz} : none;
    }
    return none;
}

/* musl's dynamic linker ends programs that preload a library of another C library. */
static bool is_of_musl(struct view linker)
{
    static const char name[] = "/ld-musl-";
    return linker.p && memmem(linker.p, linker.len, name, sizeof name - 1) != NULL;
}

/* The allocator that has a function of this name; NULL: none known. */
static const char *allocator_of(const char *name)
{
    static const struct {
        const char *symbol, *allocator;
    } known[] = {{"mallctl", "jemalloc"},
                 {"tc_malloc", "tcmalloc"},
                 {"MallocExtension_ReleaseFreeMemory", "tcmalloc"},
                 {"mi_malloc", "mimalloc"},
                 {"scudo_malloc", "Scudo"},
                 {"__asan_init", "AddressSanitizer"},
                 {"__tsan_init", "ThreadSanitizer"},
                 {"__msan_init", "MemorySanitizer"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].symbol) == 0)
            return known[i].allocator;
    }
    return NULL;
}

/* Finds a table of the dynamic linker and its string table. False: one of them is missing. */
static bool find_table(struct elf_file *f, const char *section, struct view *table,
                       struct view *names)
{
    return elf_file_section(f, section, table, NULL) == 0 &&
           elf_file_section(f, ".dynstr", names, NULL) == 0 && table->p && names->p;
}

/* Whether its dynamic symbols define malloc: they take precedence over those of any library. */
static bool defines_malloc(struct elf_file *f, char allocator[32])
{
    struct view symbols, names;
    bool found = false;
    if (!find_table(f, ".dynsym", &symbols, &names))
        return false;
    for (size_t at = 0; symbols.len - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        memcpy(&s, symbols.p + at, sizeof s);
        if (s.st_shndx == SHN_UNDEF || s.st_name >= names.len)
            continue;
        const char *name = names.p + s.st_name;
        size_t room = names.len - s.st_name;
        if (!memchr(name, 0, room < SYMBOL_NAME_MAX ? room : SYMBOL_NAME_MAX))
            continue;
        const char *known = allocator_of(name);
        if (known)
            snprintf(allocator, 32, "%s", known);
        found = found || strcmp(name, "malloc") == 0;
    }
    return found;
}

/*
 * AddressSanitizer's library ends the program if another library is loaded before it, unless this
 * option is off. Follows the flag parser of compiler-rt: the last value counts; "0", "no" and
 * "false" are off.
 */
static bool sanitizer_may_come_second(void)
{
    static const char name[] = "verify_asan_link_order=";
    const char *at = getenv("ASAN_OPTIONS");
    bool may = false;
    while (at && (at = strstr(at, name))) {
        at += strlen(name);
        const char *value = at + strspn(at, "'\"");
        may = *value == '0' || strncmp(value, "no", 2) == 0 || strncmp(value, "false", 5) == 0;
    }
    return may;
}

/*
 * Whether it is AddressSanitizer's library, of gcc or clang, which must be loaded first. Those of
 * other sanitizers work behind the preload library.
 */
static bool is_sanitizer(const char *name, size_t room)
{
    static const char *const known[] = {"libasan.so", "libhwasan.so", "libclang_rt.asan",
                                        "libclang_rt.hwasan"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i]);
        if (room >= len && memcmp(name, known[i], len) == 0)
            return true;
    }
    return false;
}

static bool needs_sanitizer(struct elf_file *f)
{
    struct view dynamic, names;
    if (!find_table(f, ".dynamic", &dynamic, &names))
        return false;
    for (size_t at = 0; dynamic.len - at >= sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn d;
        memcpy(&d, dynamic.p + at, sizeof d);
        if (d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_NEEDED && d.d_un.d_val < names.len &&
            is_sanitizer(names.p + d.d_un.d_val, names.len - d.d_un.d_val))
            return true;
    }
    return false;
}

static enum program_obstacle look_at_elf(struct program *p, int fd)
{
    struct elf_file *f;
    struct err e = {0};
    struct elf_limits limits = {.inflated_bytes = 0}; /* the linker decompresses no sections */
    if (elf_file_open(&f, fd, &limits, &e) != 0)
        return PROGRAM_UNKNOWN;
    enum program_obstacle found = PROGRAM_FINE;
    if (!elf_file_is_elf(f))
        found = PROGRAM_UNKNOWN;
    else if (!elf_file_is_64(f) || (OUR_MACHINE != EM_NONE && elf_file_machine(f) != OUR_MACHINE))
        found = PROGRAM_FOREIGN;
    else if (elf_file_has_section(f, ".note.go.buildid") || elf_file_has_section(f, ".gopclntab"))
        found = PROGRAM_GO;
    else if (linker_of(f).len == 0)
        found = PROGRAM_STATIC;
    else if (is_of_musl(linker_of(f)))
        found = PROGRAM_MUSL;
    else if (defines_malloc(f, p->allocator))
        found = PROGRAM_ALLOCATOR;
    else if (needs_sanitizer(f) && !sanitizer_may_come_second())
        found = PROGRAM_SANITIZER;
    elf_file_close(f);
    return found;
}

/* Follows scripts to their interpreter. Unreadable files are left for the kernel to reject. */
static int look(struct program *p, struct err *e)
{
    p->image = strdup(p->path);
    for (unsigned i = 0; p->image && i < SCRIPTS_MAX; i++) {
        char head[HEAD_SIZE];
        int fd = open(p->image, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        p->obstacle = PROGRAM_UNKNOWN;
        if (fd < 0)
            return 0;
        ssize_t n = pread(fd, head, sizeof head, 0);
        char *next = interpreter_of(head, n > 0 ? (size_t)n : 0);
        if (!next) {
            p->obstacle = is_privileged(fd) ? PROGRAM_PRIVILEGED : look_at_elf(p, fd);
            close(fd);
            return 0;
        }
        close(fd);
        free(p->image);
        p->image = next;
    }
    return p->image ? 0 : err_no_memory(e, "the program's path");
}

int program_find(struct program *p, const char *name, struct err *e)
{
    *p = (struct program){0};
    return find(p, name, e) == 0 ? look(p, e) : -1;
}

void program_release(struct program *p)
{
    free(p->path);
    free(p->image);
    *p = (struct program){0};
}

bool program_bears(const struct program *p)
{
    return p->obstacle != PROGRAM_SANITIZER && p->obstacle != PROGRAM_MUSL;
}

void program_explain(const struct program *p, struct buf *out)
{
    static const char *const texts[] = {
        [PROGRAM_FINE] = "",
        [PROGRAM_UNKNOWN] = "is neither a script nor an ELF program",
        [PROGRAM_STATIC] = "is statically linked: no library can be loaded before it",
        [PROGRAM_FOREIGN] = "is 32-bit or for another processor than libtidemark.so",
        [PROGRAM_PRIVILEGED] =
            "is setuid, setgid or has file capabilities: the dynamic linker ignores LD_PRELOAD",
        [PROGRAM_MUSL] = "has the C library musl: libtidemark.so needs the GNU one",
        [PROGRAM_GO] = "is a Go program: its runtime has its own allocator",
        [PROGRAM_ALLOCATOR] = "has an allocator linked in that comes before any library's",
        [PROGRAM_SANITIZER] =
            ("needs AddressSanitizer, whose library must be loaded before all others; "
             "with ASAN_OPTIONS=verify_asan_link_order=0 it may come second"),
    };
    buf_puts(out, texts[p->obstacle]);
    if (p->obstacle == PROGRAM_ALLOCATOR && p->allocator[0])
        buf_printf(out, " (%s)", p->allocator);
}
