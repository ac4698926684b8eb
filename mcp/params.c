#include "mcp/params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGEX_BYTES_MAX 1000u
#define TEXT_BYTES_MAX 65536u

/* ---- schema */

static json_t *texts_schema(void)
{
    return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
}

static json_t *choices_schema(const struct param *p)
{
    json_t *list = json_array();
    for (size_t i = 0; p->choices[i]; i++)
        (void)json_array_append_new(list, json_string(p->choices[i]));
    return json_pack("{s:s, s:o}", "type", "string", "enum", list);
}

static json_t *type_schema(const struct param *p)
{
    switch (p->type) {
    case PARAM_CHOICE:
        return choices_schema(p);
    case PARAM_INTEGER:
        return json_pack("{s:s}", "type", "integer");
    case PARAM_NUMBER:
        return json_pack("{s:s}", "type", "number");
    case PARAM_BOOLEAN:
        return json_pack("{s:s}", "type", "boolean");
    case PARAM_OBJECT:
        return json_pack("{s:s}", "type", "object");
    case PARAM_REGEXES:
        return texts_schema();
    default:
        return json_pack("{s:s}", "type", "string");
    }
}

json_t *params_schema(const struct param_lists *lists)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    bool ok = true;
    for (size_t l = 0; l < PARAM_LISTS_MAX && lists->lists[l]; l++) {
        for (const struct param *p = lists->lists[l]; p->name; p++) {
            json_t *one = type_schema(p);
            ok = ok && one && json_object_set(properties, p->name, one) == 0;
            if (!p->common)
                ok = ok && json_object_set_new(one, "description", json_string(p->what)) == 0;
            json_decref(one);
            if (p->required)
                ok = json_array_append_new(required, json_string(p->name)) == 0 && ok;
        }
    }
    json_t *schema = json_pack("{s:s, s:o, s:o}", "type", "object", "properties", properties,
                               "required", required);
    if (ok)
        return schema;
    json_decref(schema);
    return NULL;
}

/* ---- checks */

void params_describe(struct buf *out, const struct param *list)
{
    for (const struct param *p = list; p->name; p++)
        buf_printf(out, "- %s: %s\n", p->name, p->what);
}

static const struct param *find_param(const struct param_lists *lists, const char *name)
{
    for (size_t l = 0; l < PARAM_LISTS_MAX && lists->lists[l]; l++) {
        for (const struct param *p = lists->lists[l]; p->name; p++) {
            if (strcmp(p->name, name) == 0)
                return p;
        }
    }
    return NULL;
}

static int refuse(const struct param *p, const char *wanted, struct err *e)
{
    return err_set(e, ERR_USAGE, "%s is %s", p->name, wanted);
}

static int check_regex(const struct param *p, const char *text, struct err *e)
{
    return strlen(text) <= REGEX_BYTES_MAX ? 0
                                           : refuse(p, "an expression of at most 1000 bytes", e);
}

static int check_list(const struct param *p, const json_t *value, struct err *e)
{
    size_t i;
    json_t *one;
    if (!json_is_array(value) || json_array_size(value) > PARAMS_LIST_MAX)
        return refuse(p, "a list of at most 32 strings", e);
    json_array_foreach((json_t *)value, i, one)
    {
        if (!json_is_string(one))
            return refuse(p, "a list of at most 32 strings", e);
        if (check_regex(p, json_string_value(one), e) != 0)
            return -1;
    }
    return 0;
}

static int number_of_choice(const struct param *p, const char *text)
{
    for (int i = 0; p->choices[i]; i++) {
        if (strcmp(p->choices[i], text) == 0)
            return i;
    }
    return -1;
}

static int check_choice(const struct param *p, const json_t *value, struct err *e)
{
    if (json_is_string(value) && number_of_choice(p, json_string_value(value)) >= 0)
        return 0;
    err_set(e, ERR_USAGE, "%s is one of", p->name);
    for (size_t i = 0; p->choices[i]; i++) {
        size_t at = strlen(e->text);
        snprintf(e->text + at, sizeof e->text - at, "%s%s", i ? ", " : " ", p->choices[i]);
    }
    return -1;
}

static int check_number(const struct param *p, const json_t *value, struct err *e)
{
    bool whole = p->type == PARAM_INTEGER;
    double n = json_number_value(value);
    bool ok = whole ? json_is_integer(value) && json_integer_value(value) >= p->least &&
                          json_integer_value(value) <= p->most
                    : json_is_number(value) && isfinite(n) && n >= (double)p->least &&
                          n <= (double)p->most;
    return ok ? 0
              : err_set(e, ERR_USAGE, "%s is a %snumber from %lld to %lld", p->name,
                        whole ? "whole " : "", (long long)p->least, (long long)p->most);
}

static bool read_address(const json_t *value, uint64_t *out)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = text + (hexadecimal ? 2 : 0);
    char *end;
    if (strspn(digits, hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits) ||
        !*digits)
        return false;
    errno = 0;
    *out = strtoull(digits, &end, hexadecimal ? 16 : 10);
    return errno == 0;
}

static int check_value(const struct param *p, const json_t *value, struct err *e)
{
    uint64_t address;
    if (json_is_null(value))
        return p->required ? refuse(p, "missing", e) : 0;
    switch (p->type) {
    case PARAM_TEXT:
        return json_is_string(value) && json_string_length(value) <= TEXT_BYTES_MAX
                   ? 0
                   : refuse(p, "a string of at most 65536 bytes", e);
    case PARAM_REGEX:
        return json_is_string(value) ? check_regex(p, json_string_value(value), e)
                                     : refuse(p, "a string", e);
    case PARAM_REGEXES:
        return check_list(p, value, e);
    case PARAM_CHOICE:
        return check_choice(p, value, e);
    case PARAM_INTEGER:
    case PARAM_NUMBER:
        return check_number(p, value, e);
    case PARAM_OBJECT:
        return json_is_object(value) ? params_check(&(struct param_lists){{p->members}}, value, e)
                                     : refuse(p, "an object", e);
    case PARAM_BOOLEAN:
        return json_is_boolean(value) ? 0 : refuse(p, "true or false", e);
    default:
        return read_address(value, &address) ? 0 : refuse(p, "an address such as \"0x7f00\"", e);
    }
}

int params_check(const struct param_lists *lists, const json_t *arguments, struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)arguments, name, value)
    {
        const struct param *p = find_param(lists, name);
        if (!p)
            return err_set(e, ERR_USAGE, "there is no argument '%.100s'", name);
        if (check_value(p, value, e) != 0)
            return -1;
    }
    for (size_t l = 0; l < PARAM_LISTS_MAX && lists->lists[l]; l++) {
        for (const struct param *p = lists->lists[l]; p->name; p++) {
            if (p->required && !params_has(arguments, p->name))
                return refuse(p, "missing", e);
        }
    }
    return 0;
}

/* ---- values */

static const json_t *get(const json_t *arguments, const char *name)
{
    const json_t *value = json_object_get(arguments, name);
    return json_is_null(value) ? NULL : value;
}

bool params_has(const json_t *arguments, const char *name)
{
    return get(arguments, name) != NULL;
}

const char *params_text(const json_t *arguments, const char *name)
{
    return json_string_value(get(arguments, name));
}

int64_t params_integer(const json_t *arguments, const char *name, int64_t fallback)
{
    const json_t *value = get(arguments, name);
    return value ? json_integer_value(value) : fallback;
}

double params_number(const json_t *arguments, const char *name, double fallback)
{
    const json_t *value = get(arguments, name);
    return value ? json_number_value(value) : fallback;
}

bool params_boolean(const json_t *arguments, const char *name, bool fallback)
{
    const json_t *value = get(arguments, name);
    return value ? json_is_true(value) : fallback;
}

uint64_t params_address(const json_t *arguments, const char *name)
{
    uint64_t address = 0;
    (void)read_address(get(arguments, name), &address);
    return address;
}

uint32_t params_choice(const struct param_lists *lists, const json_t *arguments, const char *name)
{
    const char *text = params_text(arguments, name);
    int number = text ? number_of_choice(find_param(lists, name), text) : 0;
    return number > 0 ? (uint32_t)number : 0;
}

struct param_texts params_texts(const json_t *arguments, const char *name)
{
    struct param_texts texts = {.len = json_array_size(get(arguments, name))};
    for (size_t i = 0; i < texts.len; i++)
        texts.at[i] = json_string_value(json_array_get(get(arguments, name), i));
    return texts;
}
