#include "cli/options/option_table.h"

#include <string.h>

#include "cli/options/nearest.h"

/* Columns of --help. */
enum { HELP_COLUMN = 22, HELP_WIDTH = 90, WORD_MAX = 64, LABEL_MAX = 80, HELP_MAX = 1024 };

/* ---- rows */

const struct option_row *option_at(const struct option_group *groups, unsigned i,
                                   const struct option_group **group)
{
    for (*group = groups; (*group)->rows; (*group)++) {
        for (const struct option_row *row = (*group)->rows; row->name; row++) {
            if (i-- == 0)
                return row;
        }
    }
    return NULL;
}

/* The row of "--name" or "-l"; NULL when there is none. */
static const struct option_row *find_option(const struct option_group *groups, const char *text)
{
    const struct option_group *g;
    const struct option_row *row;
    for (unsigned i = 0; (row = option_at(groups, i, &g)); i++) {
        bool letter = row->letter && text[0] == '-' && text[1] == row->letter && !text[2];
        if (letter || strcmp(row->name, text) == 0)
            return row;
    }
    return NULL;
}

bool option_needs_value(const struct option_row *row)
{
    return row->argument && row->argument[0] != '[';
}

/* Calls `put` for each of the words. */
static void each_word(const char *words, void (*put)(void *ctx, const char *word), void *ctx)
{
    char word[WORD_MAX];
    while (*words) {
        size_t n = strcspn(words, ", ");
        if (n && n < sizeof word && !(n == 2 && memcmp(words, "or", n) == 0)) {
            memcpy(word, words, n);
            word[n] = 0;
            put(ctx, word);
        }
        words += n + strspn(words + n, ", ");
    }
}

struct word_search {
    const char *value;
    int at, found;
};

static void compare_word(void *ctx, const char *word)
{
    struct word_search *s = ctx;
    if (strcmp(word, s->value) == 0)
        s->found = s->at;
    s->at++;
}

int option_word_index(const char *words, const char *value)
{
    struct word_search s = {value, 0, -1};
    each_word(words, compare_word, &s);
    return s.found;
}

const char *option_nearest(const struct option_group *groups, const char *text)
{
    const struct option_group *g;
    const struct option_row *row;
    const char *best = NULL;
    char name[NEAREST_MAX];
    unsigned least = NEAREST_MAX;
    size_t n = strcspn(text, "=");
    if (n < 3 || n >= sizeof name)
        return NULL;
    memcpy(name, text, n);
    name[n] = 0;
    for (unsigned i = 0; (row = option_at(groups, i, &g)); i++) {
        unsigned distance = nearest_distance(row->name, name);
        if (strncmp(row->name, name, n) == 0)
            return NULL; /* an abbreviation of several */
        if (distance < least && nearest_is_close(distance, n)) {
            least = distance;
            best = row->name;
        }
    }
    return best;
}

/* ---- --help */

static void put_label(const struct option_row *row, char label[LABEL_MAX])
{
    const char *argument = row->argument ? row->argument : "";
    const char *gap = option_needs_value(row) ? " " : "";
    bool both = row->letter && row->name[1] == '-';
    if (both)
        snprintf(label, LABEL_MAX, "  -%c, %s%s%s", row->letter, row->name, gap, argument);
    else
        snprintf(label, LABEL_MAX, "%s%s%s%s", row->name[1] == '-' ? "      " : "  ", row->name,
                 gap, argument);
}

/* The row's help, with `words` in place of "{}" and the initial value behind it. */
static void help_text(const struct option_row *row, char *text, size_t size)
{
    const char *mark = strstr(row->help, "{}");
    int before = mark ? (int)(mark - row->help) : (int)strlen(row->help);
    snprintf(text, size, "%.*s%s%s%s%s%s", before, row->help, mark ? row->words : "",
             mark ? mark + 2 : "", row->initial ? " (" : "", row->initial ? row->initial : "",
             row->initial ? ")" : "");
}

/* The text is broken between words. */
static void print_row(const struct option_row *row, FILE *to)
{
    char label[LABEL_MAX], text[HELP_MAX];
    put_label(row, label);
    help_text(row, text, sizeof text);
    size_t n = strlen(label), gap = n + 1 > HELP_COLUMN ? 2 : HELP_COLUMN - n;
    size_t at = n + gap, len;
    fprintf(to, "%s%*s", label, (int)gap, "");
    for (const char *p = text; *p; p += len + strspn(p + len, " ")) {
        len = strcspn(p, " ");
        if (at + 1 + len > HELP_WIDTH && p != text) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else if (p != text) {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", (int)len, p);
        at += len;
    }
    fputc('\n', to);
}

void option_print_help(const struct option_group *groups, FILE *to)
{
    for (const struct option_group *g = groups; g->rows; g++) {
        if (g->hidden)
            continue;
        if (g->title)
            fprintf(to, "\n%s:\n", g->title);
        for (const struct option_row *row = g->rows; row->name; row++) {
            if (row->help)
                print_row(row, to);
        }
    }
}

/* ---- completion */

struct word_printer {
    const char *before; /* each word */
    FILE *to;
};

static void print_word(void *ctx, const char *word)
{
    const struct word_printer *p = ctx;
    fprintf(p->to, "%s%s\n", p->before, word);
}

/* What completes "--name=": true when that is what `text` begins with. */
static bool print_joined(const struct option_group *groups, const char *text, FILE *to)
{
    char option[LABEL_MAX];
    size_t n = strcspn(text, "=");
    snprintf(option, sizeof option, "%.*s", (int)n, text);
    const struct option_row *row = text[n] ? find_option(groups, option) : NULL;
    if (!row || n + 1 >= sizeof option)
        return text[n] != 0;
    option[n] = '=';
    option[n + 1] = 0;
    if (row->words)
        each_word(row->words, print_word, &(struct word_printer){option, to});
    return true;
}

/* The options that begin with `text`. */
static void print_options(const struct option_group *groups, const char *text, FILE *to)
{
    const struct option_group *g;
    const struct option_row *row;
    char help[HELP_MAX];
    for (unsigned i = 0; (row = option_at(groups, i, &g)); i++) {
        if (!row->help || strncmp(row->name, text, strlen(text)) != 0)
            continue;
        help_text(row, help, sizeof help);
        fprintf(to, "%s\t%s\n", row->name, help);
    }
}

void option_print_completions(const struct option_group *groups, const char *arguments, int n,
                              char **words, FILE *to)
{
    const char *last = n > 0 ? words[n - 1] : "";
    const char *before = n > 1 ? words[n - 2] : "";
    /* bash makes three words of "--by=type". */
    if (strcmp(before, "=") == 0 && n > 2)
        before = words[n - 3];
    for (int i = 0; i + 1 < n; i++) {
        if (strcmp(words[i], "--") == 0)
            return;
    }
    const struct option_row *row = find_option(groups, before);
    struct word_printer plain = {"", to};
    if (row && option_needs_value(row)) {
        if (row->words)
            each_word(row->words, print_word, &plain);
    } else if (last[0] == '-') {
        if (!print_joined(groups, last, to))
            print_options(groups, last, to);
    } else if (arguments) {
        each_word(arguments, print_word, &plain);
    }
}
