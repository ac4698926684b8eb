#include "analysis/questions/budget.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/format.h"

static const struct {
    const char *name;
    enum budget_metric metric;
} metrics[] = {
    {"peak", BUDGET_PEAK},
    {"leaked", BUDGET_LEAKED},
    {"live", BUDGET_LEAKED},
    {"live_bytes", BUDGET_LEAKED},
    {"leaked_count", BUDGET_LEAKED_COUNT},
    {"live_count", BUDGET_LEAKED_COUNT},
    {"total", BUDGET_TOTAL},
    {"count", BUDGET_COUNT},
    {"temporary", BUDGET_TEMPORARY},
    {"largest", BUDGET_LARGEST},
    {"faults", BUDGET_FAULTS},
    {"resident", BUDGET_RESIDENT},
};

static const char *const keys[] = {[BUDGET_POOL] = "pool",
                                   [BUDGET_SITE] = "site",
                                   [BUDGET_FILE] = "file",
                                   [BUDGET_IMAGE] = "image"};

static bool is_bytes(enum budget_metric m)
{
    return m == BUDGET_PEAK || m == BUDGET_LEAKED || m == BUDGET_TOTAL || m == BUDGET_LARGEST ||
           m == BUDGET_RESIDENT;
}

/* ---- parsing */

#define DEPTH_MAX 64
#define LENGTH_MAX 65536

struct parser {
    struct budget *b;
    const char *at;
    unsigned depth;
    struct err *e;
};

static int wrong(struct parser *p, const char *expected)
{
    if (*p->at == 0)
        return err_set(p->e, ERR_USAGE, "'%.200s' ends where %s is expected", p->b->text, expected);
    return err_set(p->e, ERR_USAGE, "'%.200s': %s is expected, not '%.40s'", p->b->text, expected,
                   p->at);
}

static int no_room(struct parser *p)
{
    return err_no_memory(p->e, "an expression");
}

static void skip_space(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Takes an operator. Longer ones are tried before their prefixes. */
static bool take(struct parser *p, const char *sign)
{
    skip_space(p);
    size_t n = strlen(sign);
    if (strncmp(p->at, sign, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* Takes a word that is not followed by a letter. */
static bool take_word(struct parser *p, const char *word)
{
    skip_space(p);
    size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0 || is_letter(p->at[n]) || isdigit((unsigned char)p->at[n]))
        return false;
    p->at += n;
    return true;
}

static int add_node(struct parser *p, const struct budget_node *n, uint32_t *number)
{
    if (!vec_push(&p->b->nodes, *n))
        return no_room(p);
    *number = (uint32_t)p->b->nodes.len - 1;
    return 0;
}

/* "text", with \" and \\ as escapes. The caller frees *text. */
static int parse_text(struct parser *p, char **text)
{
    struct buf b = {0};
    if (!take(p, "\""))
        return wrong(p, "a text in double quotes");
    const char *from = p->at;
    for (; *p->at && *p->at != '"'; p->at++) {
        if (*p->at == '\\' && (p->at[1] == '"' || p->at[1] == '\\'))
            p->at++;
        buf_u8(&b, (uint8_t)*p->at);
    }
    if (*p->at != '"') {
        buf_release(&b);
        p->at = from;
        return err_set(p->e, ERR_USAGE, "'%.200s': a text has no end: \"%.40s", p->b->text, from);
    }
    p->at++;
    *text = strdup(buf_str(&b));
    bool failed = b.failed || !*text;
    buf_release(&b);
    if (!failed)
        return 0;
    free(*text);
    *text = NULL;
    return no_room(p);
}

static int parse_comparator(struct parser *p, struct budget_selector *s)
{
    s->is_regex = take(p, "=~");
    s->negated = !s->is_regex && take(p, "!~");
    s->is_regex |= s->negated;
    if (s->is_regex)
        return 0;
    s->negated = take(p, "!=");
    return s->negated || take(p, "==") || take(p, "=") ? 0 : wrong(p, "=, !=, =~ or !~");
}

static int parse_selector(struct parser *p, struct budget_term *t)
{
    if (!vec_reserve(&t->selectors, t->selectors.len + 1))
        return no_room(p);
    struct budget_selector *s = &t->selectors.at[t->selectors.len];
    *s = (struct budget_selector){.key = BUDGET_POOL};
    while (s->key < BUDGET_KEYS && !take_word(p, keys[s->key]))
        s->key++;
    if (s->key == BUDGET_KEYS)
        return wrong(p, "pool, site, file or image");
    if (parse_comparator(p, s) != 0 || parse_text(p, &s->text) != 0)
        return -1;
    if (s->is_regex && !(s->regex = pattern_new(s->text, strlen(s->text), p->e))) {
        if (p->e)
            err_prefix(p->e, "'%.200s': \"%.100s\"", p->b->text, s->text);
        free(s->text);
        return -1;
    }
    t->selectors.len++;
    return 0;
}

static int parse_term(struct parser *p, uint32_t *number)
{
    struct budget_term fresh = {0};
    size_t i = 0;
    while (i < sizeof metrics / sizeof *metrics && !take_word(p, metrics[i].name))
        i++;
    if (i == sizeof metrics / sizeof *metrics)
        return wrong(p, "peak, leaked, leaked_count, total, count, temporary, largest, faults or "
                        "resident");
    fresh.metric = metrics[i].metric;
    fresh.word = metrics[i].name;
    if (!vec_push(&p->b->terms, fresh))
        return no_room(p);
    *number = (uint32_t)p->b->terms.len - 1;
    struct budget_term *t = &p->b->terms.at[*number];
    if (!take(p, "("))
        return 0;
    do {
        if (parse_selector(p, t) != 0)
            return -1;
    } while (take(p, ","));
    if (!take(p, ")"))
        return wrong(p, "',' or ')'");
    if (t->metric == BUDGET_FAULTS && budget_term_has(t, BUDGET_ROW_KEYS))
        return err_set(p->e, ERR_USAGE, "'%.200s': faults can be selected by pool only",
                       p->b->text);
    return 0;
}

static int parse_op(struct parser *p, enum budget_op *op)
{
    static const struct {
        const char *sign;
        enum budget_op op;
    } ops[] = {{">=", BUDGET_GE}, {">", BUDGET_GT},  {"<=", BUDGET_LE}, {"<", BUDGET_LT},
               {"==", BUDGET_EQ}, {"!=", BUDGET_NE}, {"=", BUDGET_EQ}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (take(p, ops[i].sign)) {
            *op = ops[i].op;
            return 0;
        }
    }
    return wrong(p, "a comparison such as >");
}

static bool take_unit(struct parser *p, double *value)
{
    static const char *const units = "KMGT";
    const char *unit = *p->at ? strchr(units, toupper((unsigned char)*p->at)) : NULL;
    if (!unit)
        return false;
    const char *end = p->at + 1;
    if (*end == 'i' && end[1] == 'B')
        end += 2;
    else if (*end == 'B')
        end++;
    if (is_letter(*end) || isdigit((unsigned char)*end))
        return false; /* a word that begins like a unit */
    p->at = end;
    *value *= pow(1024, (double)(unit - units) + 1);
    return true;
}

static int parse_value(struct parser *p, struct budget_node *n)
{
    bool minus = take(p, "-");
    n->is_change = minus || take(p, "+");
    skip_space(p);
    /* Digits only: strtod also accepts infinities and hexadecimal numbers. */
    size_t digits = strspn(p->at, "0123456789.");
    char copy[64];
    char *end;
    if (digits == 0 || digits >= sizeof copy)
        return wrong(p, "a number");
    memcpy(copy, p->at, digits);
    copy[digits] = 0;
    n->value = strtod(copy, &end);
    if (*end || !isfinite(n->value))
        return wrong(p, "a number");
    p->at += digits;
    const char *behind = p->at;
    skip_space(p);
    if (!take_unit(p, &n->value))
        n->is_percent = take(p, "%");
    if (p->at == behind && is_letter(*p->at))
        return wrong(p, "K, M, G, T or %");
    if (n->is_percent && !n->is_change)
        return err_set(p->e, ERR_USAGE,
                       "'%.200s': a percentage is a change, so it has a sign, such as +5%%",
                       p->b->text);
    if (minus)
        n->value = -n->value;
    p->b->needs_base |= n->is_change;
    return 0;
}

static int parse_or(struct parser *p, uint32_t *number);

static int parse_comparison(struct parser *p, uint32_t *number)
{
    struct budget_node n = {.kind = BUDGET_COMPARE};
    bool negated = false;
    while (take_word(p, "not") || take(p, "!"))
        negated = !negated;
    if (take(p, "(")) {
        if (++p->depth > DEPTH_MAX)
            return err_set(p->e, ERR_USAGE, "more than %d brackets within one another", DEPTH_MAX);
        if (parse_or(p, number) != 0)
            return -1;
        p->depth--;
        if (!take(p, ")"))
            return wrong(p, "')'");
    } else if (parse_term(p, &n.left) != 0 || parse_op(p, &n.op) != 0 || parse_value(p, &n) != 0 ||
               add_node(p, &n, number) != 0) {
        return -1;
    }
    n = (struct budget_node){.kind = BUDGET_NOT, .left = *number};
    return negated ? add_node(p, &n, number) : 0;
}

static int parse_and(struct parser *p, uint32_t *number)
{
    if (parse_comparison(p, number) != 0)
        return -1;
    while (take_word(p, "and") || take(p, "&&")) {
        struct budget_node n = {.kind = BUDGET_AND, .left = *number};
        if (parse_comparison(p, &n.right) != 0 || add_node(p, &n, number) != 0)
            return -1;
    }
    return 0;
}

static int parse_or(struct parser *p, uint32_t *number)
{
    if (parse_and(p, number) != 0)
        return -1;
    while (take_word(p, "or") || take(p, "||")) {
        struct budget_node n = {.kind = BUDGET_OR, .left = *number};
        if (parse_and(p, &n.right) != 0 || add_node(p, &n, number) != 0)
            return -1;
    }
    return 0;
}

int budget_parse(struct budget *b, const char *text, struct err *e)
{
    *b = (struct budget){0};
    if (strlen(text) > LENGTH_MAX)
        return err_set(e, ERR_USAGE, "an expression has %d characters at most", LENGTH_MAX);
    b->text = strdup(text);
    struct parser p = {.b = b, .at = b->text, .e = e};
    int status = b->text ? parse_or(&p, &b->root) : no_room(&p);
    if (status == 0) {
        skip_space(&p);
        if (*p.at)
            status = wrong(&p, "'and', 'or' or the end");
    }
    if (status != 0)
        budget_release(b);
    return status;
}

void budget_release(struct budget *b)
{
    for (size_t i = 0; i < b->terms.len; i++) {
        struct budget_term *t = &b->terms.at[i];
        for (size_t k = 0; k < t->selectors.len; k++) {
            pattern_free(t->selectors.at[k].regex);
            free(t->selectors.at[k].text);
        }
        vec_release(&t->selectors);
    }
    vec_release(&b->terms);
    vec_release(&b->nodes);
    free(b->text);
    *b = (struct budget){0};
}

/* ---- selectors */

bool budget_selector_takes(const struct budget_selector *s, struct view name)
{
    bool matches = s->is_regex ? pattern_matches(s->regex, name.p, name.len)
                               : view_equal(view_of(s->text), name);
    return matches != s->negated;
}

bool budget_term_takes(const struct budget_term *t, const struct budget_names *n, unsigned which)
{
    const struct view texts[] = {[BUDGET_POOL] = n->pool,
                                 [BUDGET_SITE] = n->site,
                                 [BUDGET_FILE] = n->file,
                                 [BUDGET_IMAGE] = n->image};
    for (size_t i = 0; i < t->selectors.len; i++) {
        const struct budget_selector *s = &t->selectors.at[i];
        if ((which & 1u << s->key) && !budget_selector_takes(s, texts[s->key]))
            return false;
    }
    return true;
}

bool budget_term_has(const struct budget_term *t, unsigned which)
{
    for (size_t i = 0; i < t->selectors.len; i++) {
        if (which & 1u << t->selectors.at[i].key)
            return true;
    }
    return false;
}

/* ---- evaluating */

static void put_figure(struct buf *out, enum budget_metric m, double figure)
{
    char text[FORMAT_SIZE];
    uint64_t n = figure < 0 ? 0 : figure >= 1.8e19 ? UINT64_MAX : (uint64_t)figure;
    buf_puts(out, is_bytes(m) ? format_bytes_exact(text, n) : format_count(text, n));
}

void budget_put_selector(struct buf *out, const struct budget_selector *s)
{
    buf_printf(out, "%s%s%s\"%s\"", keys[s->key], s->negated ? "!" : "=",
               s->is_regex  ? "~"
               : s->negated ? "="
                            : "",
               s->text);
}

static void put_term(struct buf *out, const struct budget_term *t)
{
    buf_puts(out, t->word);
    for (size_t i = 0; i < t->selectors.len; i++) {
        buf_puts(out, i ? ", " : "(");
        budget_put_selector(out, &t->selectors.at[i]);
    }
    buf_puts(out, t->selectors.len ? ")" : "");
}

static bool compare(enum budget_op op, double a, double b)
{
    switch (op) {
    case BUDGET_GT:
        return a > b;
    case BUDGET_GE:
        return a >= b;
    case BUDGET_LT:
        return a < b;
    case BUDGET_LE:
        return a <= b;
    case BUDGET_EQ:
        return a == b;
    default:
        return a != b;
    }
}

/* A change from 0 exceeds any percentage. */
static double change_of(double base, double now, bool percent)
{
    if (!percent)
        return now - base;
    if (base == 0)
        return now == 0 ? 0 : INFINITY;
    return (now - base) / base * 100;
}

struct evaluation {
    const struct budget *b;
    budget_figure *figure;
    void *ctx;
    struct buf *why;
    bool *results; /* by node: children come before their parents */
};

static bool evaluate_comparison(struct evaluation *x, const struct budget_node *n, bool first)
{
    const struct budget_term *t = &x->b->terms.at[n->left];
    double now = x->figure(x->ctx, t, n->is_change ? BUDGET_CHANGED : BUDGET_NOW);
    double left = now;
    buf_puts(x->why, first ? "" : ", ");
    put_term(x->why, t);
    buf_puts(x->why, " is ");
    put_figure(x->why, t->metric, now);
    if (n->is_change) {
        double base = x->figure(x->ctx, t, BUDGET_BASE);
        left = change_of(base, now, n->is_percent);
        buf_puts(x->why, ", was ");
        put_figure(x->why, t->metric, base);
        if (n->is_percent && isfinite(left))
            buf_printf(x->why, " (%+.1f %%)", left);
    }
    return compare(n->op, left, n->value);
}

bool budget_holds(const struct budget *b, budget_figure *figure, void *ctx, struct buf *why)
{
    struct evaluation x = {.b = b, .figure = figure, .ctx = ctx, .why = why};
    bool first = true;
    x.results = calloc(b->nodes.len, sizeof *x.results);
    if (!x.results) {
        why->failed = true;
        return false;
    }
    for (size_t i = 0; i < b->nodes.len; i++) {
        const struct budget_node *n = &b->nodes.at[i];
        if (n->kind == BUDGET_COMPARE) {
            x.results[i] = evaluate_comparison(&x, n, first);
            first = false;
        } else if (n->kind == BUDGET_NOT) {
            x.results[i] = !x.results[n->left];
        } else if (n->kind == BUDGET_AND) {
            x.results[i] = x.results[n->left] && x.results[n->right];
        } else {
            x.results[i] = x.results[n->left] || x.results[n->right];
        }
    }
    bool holds = x.results[b->root];
    free(x.results);
    return holds;
}
