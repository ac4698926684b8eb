#include "cli/options/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "analysis/names/skiplist.h"
#include "analysis/questions/budgets.h"
#include "base/format.h"
#include "server/capture/memory_limit.h"
#include "trace/file/file_version.h"

struct parsing {
    const struct command_line *line;
    void *ctx;
    unsigned count;
    char letters[2 * OPTION_ROWS_MAX + 2];
    struct option names[OPTION_ROWS_MAX + 1];
    const char *values[OPTION_ROWS_MAX]; /* of rows that were given; "" without a value */
};

enum { ROW_FIRST = 0x100 }; /* getopt's number of row 0; below are letters */

static void collect(struct parsing *p)
{
    const struct option_group *g;
    const struct option_row *row;
    char *letter = p->letters;
    if (p->line->in_order)
        *letter++ = '+';
    for (unsigned i = 0; i < OPTION_ROWS_MAX && (row = option_at(p->line->options, i, &g)); i++) {
        bool needed = option_needs_value(row);
        int has = needed ? required_argument : row->argument ? optional_argument : no_argument;
        bool is_long = row->name[1] == '-';
        /* A row without a long name has its letter there, which getopt_long cannot find. */
        p->names[i] = (struct option){is_long ? row->name + 2 : " ", has, NULL, ROW_FIRST + (int)i};
        char c = is_long ? row->letter : row->name[1];
        for (int j = -1; c && j < has; j++)
            *letter++ = j < 0 ? c : ':';
        p->count = i + 1;
    }
}

/* The row of getopt's number. */
static unsigned row_of(const struct parsing *p, int option)
{
    const struct option_group *g;
    const struct option_row *row;
    if (option >= ROW_FIRST)
        return (unsigned)(option - ROW_FIRST);
    for (unsigned i = 0; (row = option_at(p->line->options, i, &g)); i++) {
        if (row->letter == option || (row->name[1] == option && !row->name[2]))
            return i;
    }
    return p->count;
}

/* Stores in an integer, bool or enum. */
static void store(void *field, unsigned size, uint64_t n)
{
    uint8_t byte = (uint8_t)n;
    uint16_t two = (uint16_t)n;
    uint32_t four = (uint32_t)n;
    const void *from = size == 1 ? (void *)&byte : size == 2 ? (void *)&two : (void *)&four;
    memcpy(field, size == 8 ? (void *)&n : from, size);
}

static bool take_word(const struct option_row *row, void *field, const char *value, struct err *e)
{
    int i = option_word_index(row->words, value);
    if (i >= 0)
        store(field, row->size, row->least + (uint64_t)i);
    return i >= 0 || refuse_value(e, row->name, row->words, value);
}

static bool take_number(const struct option_row *row, void *field, const char *value, struct err *e)
{
    uint64_t n, fits = row->size < 8 ? (UINT64_C(1) << 8 * row->size) - 1 : UINT64_MAX;
    if (!option_u64(value, row->name, row->least, row->most ? row->most : fits, &n, e))
        return false;
    store(field, row->size, n);
    return true;
}

/* The minimum for a session to make progress. */
#define MEMORY_BOUND_LEAST ((uint64_t)96 << 20)

static bool take_memory_bound(const char *text, uint64_t *bytes, struct err *e)
{
    uint64_t n;
    char digits[8];
    size_t len = strlen(text);
    if (len > 1 && len < sizeof digits && text[len - 1] == '%') {
        memcpy(digits, text, len - 1);
        digits[len - 1] = 0;
        if (!option_u64(digits, "--memory-limit", 1, 100, &n, e))
            return false;
        *bytes = memory_physical() / 100 * n;
    } else if (format_parse_bytes("--memory-limit", text, bytes, e) != 0) {
        return false;
    }
    if (*bytes < MEMORY_BOUND_LEAST)
        err_set(e, ERR_USAGE, "--memory-limit takes 96M at least, not '%s'", text);
    return *bytes >= MEMORY_BOUND_LEAST;
}

static bool take_layout(const struct file_layout **layout, const char *value, struct err *e)
{
    uint32_t version;
    if (file_version_parse(value, &version, e) != 0)
        return false;
    *layout = file_layout_find(version);
    return true;
}

/* An option without a value, or whose value was left out. */
static void store_flag(const struct option_row *row, void *field)
{
    if (row->type == VALUE_SET)
        store(field, row->size, row->least);
    else if (row->type == VALUE_PLAIN && !row->argument)
        *(bool *)field = true;
}

/* `base`: the group's struct. */
static bool take_row(const struct option_row *row, char *base, const char *value, struct err *e)
{
    void *field = base + row->at;
    if (row->take) {
        bool taken = row->take(field, row->name, value, e);
        if (!taken && !e->code && row->words)
            (void)refuse_value(e, row->name, row->words, value);
        return taken;
    }
    if (!value) {
        store_flag(row, field);
        return true;
    }
    switch (row->type) {
    case VALUE_PLAIN:
    case VALUE_PAIR:
        *(const char **)field = value;
        return true;
    case VALUE_WORD:
        return take_word(row, field, value, e);
    case VALUE_NUMBER:
        return take_number(row, field, value, e);
    case VALUE_COUNT:
        return format_parse_count(row->name, value, field, e) == 0;
    case VALUE_BYTES:
        return format_parse_bytes(row->name, value, field, e) == 0;
    case VALUE_SECONDS:
        return option_seconds(value, row->name, field, e);
    case VALUE_REAL:
        return option_real(value, row->name, (double)row->least, (double)row->most, field, e);
    case VALUE_TIME:
        return option_time(value, row->name, field, e);
    case VALUE_RANGE:
        return !value ||
               option_range(value, row->name, field, (int64_t *)(void *)(base + row->second), e);
    case VALUE_MEMORY_BOUND:
        return take_memory_bound(value, field, e);
    case VALUE_FILE_VERSION:
        return file_version_parse(value, field, e) == 0;
    case VALUE_LAYOUT:
        return take_layout(field, value, e);
    case VALUE_COMPRESSION:
        return option_compression(value, field, e);
    case VALUE_SKIP:
        return skiplist_add(field, value, e) == 0;
    case VALUE_NO_SKIP:
        return skiplist_keep(field, value, e) == 0;
    case VALUE_EXPRESSION:
    case VALUE_CHANGE:
        return budgets_add(field, row->name, value, row->type == VALUE_EXPRESSION, e);
    default:
        return true;
    }
}

/* Takes the second value of a pair, which getopt does not know. */
static bool take_pair(const struct option_row *row, char *base, int argc, char **argv,
                      struct err *e)
{
    if (optind < argc) {
        *(const char **)(base + row->second) = argv[optind++];
        return true;
    }
    err_set(e, ERR_USAGE, "%s takes two values, %s", row->name, row->argument);
    return false;
}

/* A range that may be left out can also be the next word, which then begins as a time does. */
static const char *next_value(const struct option_row *row, int argc, char **argv)
{
    const char *word = optind < argc ? argv[optind] : "";
    bool is_range = row->type == VALUE_RANGE && !option_needs_value(row) && strchr(word, ':') &&
                    strchr("0123456789.:", word[0]);
    return is_range ? argv[optind++] : NULL;
}

static bool take_initial(struct parsing *p, struct err *e)
{
    const struct option_group *g;
    const struct option_row *row;
    for (unsigned i = 0; (row = option_at(p->line->options, i, &g)); i++) {
        if (row->initial && !take_row(row, (char *)p->ctx + g->base, row->initial, e))
            return false;
    }
    return true;
}

/* What `parse` returns for a --help that ends as an invalid command line does. */
#define HELP_REFUSED 2

static int print_usage(const struct command_line *l)
{
    FILE *to = l->usage_to ? l->usage_to : stdout;
    fprintf(to, "%s\n", l->usage);
    option_print_help(l->options, to);
    if (l->footer)
        fprintf(to, "\n%s", l->footer);
    return l->help_refused ? HELP_REFUSED : 0;
}

static int print_version(const struct command_line *l)
{
    printf("%s %s\n", l->version ? l->version : "tidemark", TIDEMARK_VERSION);
    return 0;
}

/* getopt_long reported an unknown option; official tools say no more. */
static int unknown_option(const struct parsing *p, char **argv)
{
    const char *word = optopt == 0 ? argv[optind - 1] : "";
    const char *nearest =
        strncmp(word, "--", 2) == 0 ? option_nearest(p->line->options, word) : NULL;
    if (nearest && p->line->refused != 1)
        fprintf(stderr, "%s: did you mean '%s'?\n", argv[0], nearest);
    return 1;
}

/* One option that getopt found. -1: go on. */
static int take_found(struct parsing *p, int option, int argc, char **argv, struct err *e)
{
    const struct option_group *g;
    unsigned i = row_of(p, option);
    const struct option_row *row = option == '?' ? NULL : option_at(p->line->options, i, &g);
    if (!row)
        return unknown_option(p, argv);
    if (row->type == VALUE_HELP)
        return print_usage(p->line);
    if (row->type == VALUE_VERSION)
        return print_version(p->line);
    const char *value = optarg ? optarg : next_value(row, argc, argv);
    p->values[i] = value ? value : "";
    char *base = (char *)p->ctx + g->base;
    if (row->given)
        *(bool *)(base + row->given) = true;
    if (!take_row(row, base, value, e))
        return 1;
    return row->type != VALUE_PAIR || take_pair(row, base, argc, argv, e) ? -1 : 1;
}

/* Whether the option "--name", "--name=value" or "--name!=value" of these `n` bytes was given. */
static bool was_given(const struct parsing *p, const char *text, size_t n)
{
    const struct option_group *g;
    const struct option_row *row;
    size_t len = 0;
    while (len < n && text[len] != '=' && text[len] != '!')
        len++;
    bool other = len < n && text[len] == '!';
    const char *value = text + len + other + 1;
    size_t value_len = len < n ? (size_t)(text + n - value) : 0;
    for (unsigned i = 0; (row = option_at(p->line->options, i, &g)); i++) {
        if (!p->values[i] || strlen(row->name) != len || strncmp(row->name, text, len) != 0)
            continue;
        return len == n || other != (strlen(p->values[i]) == value_len &&
                                     strncmp(p->values[i], value, value_len) == 0);
    }
    return false;
}

/* The first option of a list that was given, other than `except`: its text and length, or NULL. */
static const char *first_given(const struct parsing *p, const char *list, const char *except,
                               size_t *n)
{
    for (; *list; list += *n + strspn(list + *n, " ")) {
        *n = strcspn(list, " ");
        if (list != except && was_given(p, list, *n))
            return list;
    }
    return NULL;
}

static bool keeps_rule(const struct parsing *p, const struct option_rule *r, struct err *e)
{
    size_t n, m;
    bool needs = r->kind == OPTION_NEEDS, one = r->kind == OPTION_ONE_OF;
    const char *option = first_given(p, r->options, NULL, &n);
    const char *others = one ? r->options : r->others;
    const char *other = option ? first_given(p, others, one ? option : NULL, &m) : NULL;
    if (!option || needs == (other != NULL))
        return true;
    if (needs) {
        other = others;
        m = strlen(others);
    }
    if (r->message)
        err_set(e, ERR_USAGE, "%s", r->message);
    else
        err_set(e, ERR_USAGE, "%.*s %s with %.*s", (int)n, option, needs ? "goes" : "does not go",
                (int)m, other);
    return false;
}

bool option_take_value(const struct option_group *groups, void *ctx, const char *name,
                       const char *value, struct err *e)
{
    const struct option_group *g;
    const struct option_row *row;
    for (unsigned i = 0; (row = option_at(groups, i, &g)); i++) {
        if (strcmp(row->name, name) == 0)
            return take_row(row, (char *)ctx + g->base, value, e);
    }
    return false;
}

static bool take_positional(const struct parsing *p, int n, char **arguments, struct err *e)
{
    const struct option_row *row = p->line->positional;
    int i = 0;
    for (; row[i].name && i < n; i++)
        *(const char **)((char *)p->ctx + row[i].at) = arguments[i];
    if (row[i].name)
        err_set(e, ERR_USAGE, "which %s?", row[i].name);
    else if (i < n)
        err_set(e, ERR_USAGE, "unexpected argument '%s'", arguments[i]);
    return !row[i].name && i == n;
}

static int parse(const struct command_line *l, void *ctx, int argc, char **argv, struct err *e)
{
    struct parsing p = {.line = l, .ctx = ctx};
    int option, status;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0 && l->refused != 1) {
        option_print_completions(l->options, l->arguments, argc - 2, argv + 2, stdout);
        return 0;
    }
    collect(&p);
    if (!take_initial(&p, e))
        return 1;
    while ((option = getopt_long(argc, argv, p.letters, p.names, NULL)) != -1) {
        if ((status = take_found(&p, option, argc, argv, e)) >= 0)
            return status;
    }
    for (const struct option_rule *r = l->rules; r && r->options; r++) {
        if (!keeps_rule(&p, r, e))
            return 1;
    }
    if (l->positional && !take_positional(&p, argc - optind, argv + optind, e))
        return 1;
    return !l->rest || l->rest(ctx, argc - optind, argv + optind, e) ? -1 : 1;
}

int command_line_parse(const struct command_line *line, void *ctx, int argc, char **argv)
{
    struct err e = {0};
    int status = parse(line, ctx, argc, argv, &e);
    if (status <= 0)
        return status;
    int refused = line->refused ? line->refused : 2;
    if (status == HELP_REFUSED)
        return refused;
    if (e.code == ERR_MEMORY) { /* not an error of the command line */
        print_error(&e);
        return refused == 2 ? err_exit_status(&e) : refused;
    }
    if (e.text[0]) /* getopt_long prints its own errors */
        fprintf(stderr, "%s%s%s\n", line->nameless_errors ? "" : argv[0],
                line->nameless_errors ? "" : ": ", e.text);
    if (line->hint)
        fputs(line->hint, line->hint_to ? line->hint_to : stderr);
    else
        fprintf(stderr, "%.*s; try 'tidemark %s --help'\n", (int)strcspn(line->usage, "\n"),
                line->usage, argv[0]);
    return refused;
}

bool option_one_trace(int n, char **arguments, const char **trace, struct err *e)
{
    if (n == 1)
        *trace = arguments[0];
    else if (n == 0)
        err_set(e, ERR_USAGE, "which trace?");
    else
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[1]);
    return n == 1;
}

bool option_u64(const char *text, const char *option, uint64_t least, uint64_t most, uint64_t *out,
                struct err *e)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || n < least || n > most) {
        err_set(e, ERR_USAGE, "%s takes a number from %llu to %llu, not '%s'", option,
                (unsigned long long)least, (unsigned long long)most, text);
        return false;
    }
    *out = n;
    return true;
}

bool option_seconds(const char *text, const char *option, double *out, struct err *e)
{
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        err_set(e, ERR_USAGE, "%s takes a number of seconds, not '%s'", option, text);
        return false;
    }
    *out = seconds;
    return true;
}

bool option_real(const char *text, const char *option, double least, double most, double *out,
                 struct err *e)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value) || value < least || value > most) {
        err_set(e, ERR_USAGE, "%s takes a number from %g to %g, not '%s'", option, least, most,
                text);
        return false;
    }
    *out = value;
    return true;
}

bool option_compression(const char *text, struct container_options *out, struct err *e)
{
    if (strcmp(text, "lz4") == 0) {
        out->method = METHOD_LZ4;
    } else if (strcmp(text, "lz4hc") == 0) {
        out->method = METHOD_LZ4_HC;
    } else if (strncmp(text, "zstd", 4) == 0 && (text[4] == 0 || text[4] == ':')) {
        char *end = NULL;
        long level = text[4] ? strtol(text + 5, &end, 10) : CONTAINER_LEVEL_OWN;
        if (text[4] &&
            (end == text + 5 || *end || level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())) {
            err_set(e, ERR_USAGE, "zstd has levels up to %d, not '%s'", ZSTD_maxCLevel(), text);
            return false;
        }
        out->method = METHOD_ZSTD;
        out->level = (int)level;
    } else {
        err_set(e, ERR_USAGE, "compression is lz4, lz4hc, zstd or zstd:LEVEL, not '%s'", text);
        return false;
    }
    return true;
}

/* A time that ends at `end`, in ns. False when it is invalid. */
static bool parse_time(const char *text, const char *end, int64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},  {"", 1},     {"us", 1e3},   {"\u00b5s", 1e3}, {"ms", 1e6},
                 {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    char *after;
    char copy[64];
    size_t len = (size_t)(end - text);
    if (len == 0 || len >= sizeof copy || text[0] < '0' || text[0] > '9')
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    errno = 0;
    unsigned long long whole = strtoull(copy, &after, 10);
    if (*after == 0 && errno == 0 && whole <= INT64_MAX) {
        *ns = (int64_t)whole;
        return true;
    }
    if (strpbrk(copy, "xX"))
        return false;
    double value = strtod(copy, &after);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double product = value * units[i].ns;
        if (strcmp(after, units[i].name) == 0 && isfinite(product) && product < 9e18) {
            *ns = (int64_t)llround(product);
            return true;
        }
    }
    return false;
}

bool option_time(const char *text, const char *option, int64_t *out, struct err *e)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    if (!parse_time(digits, digits + strlen(digits), out)) {
        err_set(e, ERR_USAGE, "%s takes a time such as 1.5s, not '%s'", option, text);
        return false;
    }
    *out = negative ? -*out : *out;
    return true;
}

bool option_range(const char *text, const char *option, int64_t *begin, int64_t *end, struct err *e)
{
    const char *colon = strchr(text, ':');
    const char *last = text + strlen(text);
    *begin = INT64_MIN;
    *end = INT64_MAX;
    bool ok = colon && (colon == text || parse_time(text, colon, begin)) &&
              (colon + 1 == last || parse_time(colon + 1, last, end)) && *begin < *end;
    if (!ok)
        err_set(e, ERR_USAGE,
                "%s takes a range of time such as 1.5s:2m, the end later than the begin, not '%s'",
                option, text);
    return ok;
}

/* ---- --memory */

#define MEMORY_LEAST ((uint64_t)1 << 20)

static bool take_memory(void *ctx, const char *option, const char *value, struct err *e)
{
    uint64_t *bytes = ctx;
    return format_parse_bytes(option, value, bytes, e) == 0 &&
           (*bytes >= MEMORY_LEAST || refuse_value(e, option, "1M at least", value));
}

const struct option_row memory_rows[] = {
    {"--memory", "SIZE",
     "take at most so much memory; what is beyond it goes to temporary files, or the question "
     "fails; 1M at least",
     .take = take_memory},
    {0},
};
