/* tidemark push: adds the rows of finished traces to the tables of a fleet. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/format.h"
#include "base/print_error.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/export_input.h"
#include "cli/options/options.h"
#include "cli/options/question.h"
#include "report/write/json_value.h"
#include "server/sinks/compact_folder.h"
#include "server/sinks/push.h"

static const char usage[] =
    "usage: tidemark push --sink SINK [OPTIONS] FILE...\n"
    "       tidemark push --sink files=FOLDER --compact [--keep DAYS] [--keep NAME=VALUE:DAYS]\n"
    "\n"
    "Adds what is in traces to the tables of a fleet, where engines made for that ask questions\n"
    "of thousands of traces. The manual has the tables and worked queries. SINK is one of\n"
    "\n"
    "   clickhouse=URL  a ClickHouse server, http://HOST:8123/DATABASE (DATABASE: tidemark), as\n"
    "                   $CLICKHOUSE_USER with $CLICKHOUSE_PASSWORD, if these are set\n"
    "   files=FOLDER    Parquet files, FOLDER/TABLE/day=YYYY-MM-DD/TRACE.parquet, for DuckDB,\n"
    "                   Spark and the like\n"
    "\n"
    "A trace that is there already is passed over; one that was cut off half-way can be sent "
    "again.\n";

static const char footer[] =
    "Exit status: 0 done; 2 usage; 3 unreadable trace; 4 refused or cannot be written; 5 no\n"
    "connection. The traces before and behind a bad one are sent.\n";

#define ID_SIZE 33u /* including the NUL */
#define SECONDS_OF_DAY 86400

/* The result for a trace. */
struct told {
    const char *file;
    char id[ID_SIZE];
    uint64_t rows;
    bool was_there;
};

struct push {
    struct question question; /* the selection */
    struct push_place place;
    VEC(struct fleet_label) labels;
    VEC(char *) names; /* of labels; owned */
    unsigned tables;
    uint64_t points;
    bool again, no_create, definitions, compact, json;
    struct compact_plan plan;
    struct fleet_sink rows;
    struct push_sink sink;
    char **files;
    int file_count;
    struct resolver *resolver;
    VEC(struct told) told;
    uint64_t count; /* rows of the current trace */
};

/* ---- arguments */

bool push_place_parse(struct push_place *p, const char *value)
{
    static const struct {
        const char *text;
        enum push_kind kind;
    } kinds[] = {{"clickhouse=", PUSH_CLICKHOUSE}, {"files=", PUSH_FILES}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].text);
        if (strncmp(value, kinds[i].text, n) == 0)
            *p = (struct push_place){kinds[i].kind, value + n};
    }
    return p->kind != PUSH_NOWHERE && *p->place;
}

bool push_is_label(const char *value)
{
    const char *equals = strchr(value, '=');
    return equals && equals != value;
}

static bool take_sink(void *ctx, const char *option, const char *value, struct err *e)
{
    struct push *p = ctx;
    if (p->place.kind != PUSH_NOWHERE) {
        err_set(e, ERR_USAGE, "--sink can be given once");
        return false;
    }
    return push_place_parse(&p->place, value) || refuse_value(e, option, PUSH_PLACES, value);
}

static bool take_label(void *ctx, const char *option, const char *value, struct err *e)
{
    struct push *p = ctx;
    const char *equals = strchr(value, '=');
    if (!push_is_label(value))
        return refuse_value(e, option, "NAME=VALUE", value);
    char *name = strndup(value, (size_t)(equals - value));
    if (name && vec_push(&p->names, name)) {
        if (vec_push(&p->labels, (struct fleet_label){name, equals + 1}))
            return true;
    } else {
        free(name);
    }
    err_no_memory(e, "labels");
    return false;
}

static bool take_table(void *ctx, const char *option, const char *value, struct err *e)
{
    struct push *p = ctx;
    struct buf names = {0};
    unsigned id;
    if (fleet_table_find(value, &id)) {
        p->tables++;
        p->rows.wanted[id] = true;
        return true;
    }
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", fleet_table(i)->name);
    (void)refuse_value(e, option, buf_str(&names), value);
    buf_release(&names);
    return false;
}

static bool take_keep(void *ctx, const char *option, const char *value, struct err *e)
{
    struct push *p = ctx;
    struct compact_rule rule;
    if (!compact_rule_parse(&rule, value))
        return refuse_value(e, option, COMPACT_RULE, value);
    for (size_t i = 0; i < p->plan.rules.len && !rule.label; i++) {
        if (!p->plan.rules.at[i].label) {
            err_set(e, ERR_USAGE, "--keep DAYS can be given once");
            return false;
        }
    }
    if (vec_push(&p->plan.rules, rule))
        return true;
    err_no_memory(e, "rules");
    return false;
}

#define FIELD(NAME) OPTION_FIELD(struct push, NAME)

static const struct option_row rows[] = {
    {"--sink", "SINK", "see above", .take = take_sink},
    {"--label", "NAME=VALUE",
     "a row of the table `labels` for each trace, such as build=4711; may be given several times",
     .take = take_label},
    {"--table", "NAME",
     "this table only, besides `traces` and `labels`; may be given several times (all tables of "
     "memory)",
     .take = take_table},
    {"--points", "N",
     "cut the time into N parts and give the lowest, highest and last use of each pool in each; "
     "0: give all (10000)",
     .type = VALUE_NUMBER, .most = 1000000000, FIELD(points)},
    {"--again", NULL, "send traces that are there already, too", FIELD(again)},
    {"--no-create", NULL, "clickhouse: the tables are there; do not try to make them",
     FIELD(no_create)},
    {"--definitions", NULL, "print the SQL statements that make the tables, and end",
     FIELD(definitions)},
    {"--compact", NULL,
     "files: write no trace, but make one file of the files of each table and day", FIELD(compact)},
    {"--keep", "RULE",
     "with --compact: DAYS drops traces captured more than so many days ago, NAME=VALUE:DAYS says "
     "so for those with that label; may be given several times",
     .take = take_keep},
    {"--format", "F", "{}: output for each trace", "text", .type = VALUE_WORD,
     .words = "text or json", FIELD(json)},
    QUIET_ROW(struct push, question.quiet),
    OPTION_HELP_ROW,
    {0},
};

static const struct option_group groups[] = {
    {.rows = rows},
    {.rows = question_resolve_rows, .base = offsetof(struct push, question)},
    QUESTION_SELECTION_GROUP(struct push),
    QUESTION_FILE_GROUPS(struct push),
    {0},
};

static const struct option_rule rules[] = {
    {"--keep", OPTION_NEEDS, "--compact", NULL},
    {"--compact", OPTION_EXCLUDES, "--label --table --points --again --no-create --definitions",
     NULL},
    {0},
};

static bool take_rest(void *ctx, int n, char **arguments, struct err *e)
{
    struct push *p = ctx;
    p->files = arguments;
    p->file_count = n;
    if ((p->definitions || (p->compact && p->place.kind == PUSH_FILES)) && n == 0)
        return true;
    if (p->definitions)
        err_set(e, ERR_USAGE, "--definitions takes no trace");
    else if (p->place.kind == PUSH_NOWHERE)
        err_set(e, ERR_USAGE, "which --sink?");
    else if (p->compact)
        err_set(e, ERR_USAGE, "--compact takes a sink files=FOLDER and no trace");
    else if (n == 0)
        err_set(e, ERR_USAGE, "which trace?");
    else
        return true;
    return false;
}

/* ---- a trace */

/* The id of a trace is a hash of its bytes: the same file is the same trace in any folder. */
static int read_id(const char *path, char id[ID_SIZE], uint64_t *size, struct err *e)
{
    static const size_t piece = (size_t)1 << 18;
    uint8_t *bytes = malloc(piece);
    XXH3_state_t *state = XXH3_createState();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    int status = -1;
    *size = 0;
    if (!bytes || !state || XXH3_128bits_reset(state) != XXH_OK) {
        err_no_memory(e, "a trace's id");
    } else if (fd >= 0) {
        while ((n = read(fd, bytes, piece)) > 0) {
            (void)XXH3_128bits_update(state, bytes, (size_t)n);
            *size += (uint64_t)n;
        }
    }
    if (bytes && state && n < 0) {
        err_errno(e, ERR_INPUT, "cannot read %s", path);
    } else if (bytes && state) {
        XXH128_hash_t hash = XXH3_128bits_digest(state);
        snprintf(id, ID_SIZE, "%016llx%016llx", (unsigned long long)hash.high64,
                 (unsigned long long)hash.low64);
        status = 0;
    }
    if (fd >= 0)
        close(fd);
    (void)XXH3_freeState(state);
    free(bytes);
    return status;
}

static int put_row(void *ctx, const struct fleet_trace *trace, unsigned table,
                   const struct cell *cells, struct err *e)
{
    struct push *p = ctx;
    p->count++;
    return p->sink.row(p->sink.ctx, trace, table, cells, e);
}

static int push_rows(struct push *p, const char *path, struct fleet_trace *trace, struct err *e)
{
    struct export_input input = {.path = path,
                                 .only = p->question.selection,
                                 .resolve = &p->question.resolve,
                                 .resolver = p->resolver,
                                 .quiet = p->question.quiet};
    const struct tables_source source = {.ctx = &input, .load = export_load};
    p->rows.only = &input.only;
    if (fleet_export(&source, trace, &p->rows, e) == 0)
        return p->sink.end(p->sink.ctx, e);
    p->sink.drop(p->sink.ctx);
    return -1;
}

static int push_one(struct push *p, const char *path, struct err *e)
{
    struct told told = {.file = path};
    const char *slash = strrchr(path, '/');
    struct fleet_trace trace = {.id = told.id,
                                .file = slash ? slash + 1 : path,
                                .labels = p->labels.at,
                                .label_count = p->labels.len};
    p->count = 0;
    if (read_id(path, told.id, &trace.file_bytes, e) != 0)
        return -1;
    enum push_there there = PUSH_NOT_THERE;
    if ((!p->again || p->place.kind == PUSH_FILES) &&
        p->sink.has(p->sink.ctx, told.id, &there, e) != 0)
        return -1;
    if (p->again && there == PUSH_IN_PART)
        return err_set(e, ERR_OUTPUT, "%s is in a compacted file, where --again cannot replace it",
                       path);
    told.was_there = there != PUSH_NOT_THERE && !p->again;
    if (!told.was_there && push_rows(p, path, &trace, e) != 0)
        return -1;
    told.rows = p->count;
    return vec_push(&p->told, told) ? 0 : err_no_memory(e, "what was sent");
}

/* An unreadable trace does not stop the others; an unreachable sink does. */
static int push_files(struct push *p, struct err *e)
{
    int status = 0;
    for (int i = 0; i < p->file_count; i++) {
        struct err own = {0};
        if (push_one(p, p->files[i], &own) == 0)
            continue;
        if (status != 0)
            print_error(e);
        status = -1;
        *e = own;
        if (own.code != ERR_INPUT)
            break;
    }
    return status;
}

/* ---- output for each trace */

static int print_buf(const struct buf *text, struct err *e)
{
    if (text->failed)
        return err_no_memory(e, "what was sent");
    if (text->len == 0 ||
        (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0))
        return 0;
    return err_errno(e, ERR_OUTPUT, "cannot write what was sent");
}

static int print_text(const struct push *p, struct err *e)
{
    struct buf text = {0};
    char count[FORMAT_SIZE];
    for (size_t i = 0; i < p->told.len; i++) {
        const struct told *t = &p->told.at[i];
        format_terminal(&text, view_of(t->file));
        if (t->was_there)
            buf_printf(&text, ": there already, as %s\n", t->id);
        else
            buf_printf(&text, ": %s as %s\n", format_counted(count, t->rows, "row"), t->id);
    }
    int status = print_buf(&text, e);
    buf_release(&text);
    return status;
}

static json_t *told_json(const struct told *t)
{
    json_t *one = json_with(json_object(), "file", json_text(view_of(t->file)));
    one = json_with(one, "trace", json_text(view_of(t->id)));
    one = json_with(one, "rows", json_count(t->rows));
    return json_with(one, "was_there", json_boolean(t->was_there));
}

static int print_json(const struct push *p, struct err *e)
{
    struct buf text = {0};
    json_t *list = json_array();
    for (size_t i = 0; list && i < p->told.len; i++)
        list = json_add(list, told_json(&p->told.at[i]));
    json_t *all = json_with(json_object(), "schema", json_string("tidemark.push/1"));
    text.failed = !json_put(&text, json_with(all, "traces", list), JSON_INDENT(2));
    buf_puts(&text, "\n");
    int status = print_buf(&text, e);
    buf_release(&text);
    return status;
}

/* ---- compaction */

static json_t *compacted_json(const struct compact_told *told)
{
    json_t *all = json_with(json_object(), "schema", json_string("tidemark.compact/1"));
    all = json_with(all, "files_before", json_count(told->files_before));
    all = json_with(all, "files_after", json_count(told->files_after));
    all = json_with(all, "traces_dropped", json_count(told->dropped));
    return json_with(all, "files_of_other_columns", json_count(told->other));
}

static int print_compacted(const struct push *p, const struct compact_told *told, struct err *e)
{
    struct buf text = {0};
    char before[FORMAT_SIZE], after[FORMAT_SIZE], dropped[FORMAT_SIZE], other[FORMAT_SIZE];
    if (p->json) {
        text.failed = !json_put(&text, compacted_json(told), JSON_INDENT(2));
    } else {
        buf_printf(&text, "%s became %s; %s dropped",
                   format_counted(before, told->files_before, "file"),
                   format_count(after, told->files_after),
                   format_counted(dropped, told->dropped, "trace"));
        if (told->other)
            buf_printf(&text, "; %s of another version left alone",
                       format_counted(other, told->other, "file"));
    }
    buf_puts(&text, "\n");
    int status = print_buf(&text, e);
    buf_release(&text);
    return status;
}

/* A misspelt label keeps nothing: traces that it should keep have the days of all others. */
static void note_rules(const struct compact_plan *plan)
{
    struct err e;
    for (size_t i = 0; i < plan->rules.len; i++) {
        const struct compact_rule *rule = &plan->rules.at[i];
        if (!rule->label || rule->matched)
            continue;
        err_set(&e, ERR_CHECK, "note: --keep %.200s: no trace has this label", rule->label);
        print_error(&e);
    }
}

static int compact(struct push *p, struct err *e)
{
    struct compact_told told = {0};
    p->plan.today = time(NULL) / SECONDS_OF_DAY;
    if (compact_files(p->place.place, &p->plan, &told, e) != 0)
        return -1;
    note_rules(&p->plan);
    return print_compacted(p, &told, e);
}

/* ---- the whole */

/* Prints traces once they have arrived. */
static int push_all(struct push *p, struct err *e)
{
    struct err own = {0};
    int status = push_files(p, e);
    if (p->sink.finish(p->sink.ctx, &own) != 0 ||
        (p->json ? print_json(p, &own) : print_text(p, &own)) != 0) {
        if (status != 0)
            print_error(e);
        *e = own;
        status = -1;
    }
    return status;
}

static int run(struct push *p, struct err *e)
{
    struct resolver resolver = RESOLVER_NONE;
    for (unsigned i = 0; i < FLEET_TABLE_COUNT; i++)
        p->rows.wanted[i] |= p->tables == 0 && fleet_table_is_usual(i);
    p->rows.wanted[FLEET_TABLE_TRACES] = p->rows.wanted[FLEET_TABLE_LABELS] = true;
    p->rows.ctx = p;
    p->rows.row = put_row;
    p->rows.points = p->points;
    if (p->definitions)
        return push_clickhouse_definitions(p->rows.wanted, e);
    if (p->compact)
        return compact(p, e);
    /* Starts the helper before anything else is open. */
    int status = resolve_request_start(&p->question.resolve, &resolver, e);
    p->resolver = &resolver;
    if (status == 0)
        status =
            p->place.kind == PUSH_FILES
                ? push_files_open(&p->sink, p->place.place, e)
                : push_clickhouse_open(&p->sink, p->place.place, !p->no_create, p->rows.wanted, e);
    if (status == 0) {
        status = push_all(p, e);
        p->sink.close(p->sink.ctx);
    }
    resolver_release(&resolver);
    return status;
}

int cmd_push(int argc, char **argv)
{
    const struct command_line line = {
        .options = groups, .rules = rules, .usage = usage, .footer = footer, .rest = take_rest};
    struct push p = {.points = TABLES_POINTS};
    struct err e = {0};
    int status = command_line_parse(&line, &p, argc, argv);
    if (status < 0 && run(&p, &e) != 0)
        status = print_error(&e);
    for (size_t i = 0; i < p.names.len; i++)
        free(p.names.at[i]);
    vec_release(&p.names);
    vec_release(&p.labels);
    vec_release(&p.told);
    vec_release(&p.plan.rules);
    resolve_request_release(&p.question.resolve);
    return status < 0 ? 0 : status;
}
