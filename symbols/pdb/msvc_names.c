#include "symbols/pdb/msvc_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/view.h"

#define PARTS_MAX 32u
#define KNOWN_MAX 10u /* names and types that a digit may repeat */
#define DEPTH_MAX 64u /* names, types and template arguments within each other */
#define ROOM_MAX (4 * MSVC_NAME_MAX)

static const char anonymous[] = "`anonymous namespace'";

/* Text in the room of a decoder. */
struct piece {
    size_t at, len;
};

/* A type as the text around a declarator: "int (*" and ")[2]". */
struct type {
    enum { TYPE_PLAIN, TYPE_ARRAY, TYPE_FUNCTION } form;
    const char *convention; /* of a function */
    struct piece left, right;
};

/* What digits repeat. Each name with template arguments has its own. */
struct known {
    struct piece names[KNOWN_MAX];
    struct type types[KNOWN_MAX];
    unsigned name_count, type_count;
};

/* The innermost part of a symbol's name. */
struct leaf {
    enum { LEAF_NAME, LEAF_CONSTRUCTOR, LEAF_DESTRUCTOR, LEAF_CONVERSION } role;
    struct piece text, arguments;
};

struct decoder {
    const char *p; /* what follows; "" after a failure, which ends every loop */
    bool failed;
    unsigned depth;
    struct buf room; /* every piece that was made; its limit bounds what digits repeat */
    struct known known;
};

enum { QUALIFIER_CONST = 1, QUALIFIER_VOLATILE = 2 };

static struct piece take_symbol(struct decoder *d, bool with_type);
static struct type take_type(struct decoder *d, unsigned qualifiers);
static struct piece take_type_name(struct decoder *d);

static void fail(struct decoder *d)
{
    d->failed = true;
    d->p = "";
}

/* ---- text */

static bool take_text(struct decoder *d, const char *text)
{
    size_t len = strlen(text);
    if (strncmp(d->p, text, len) != 0)
        return false;
    d->p += len;
    return true;
}

/* The next character, which may be the terminator; that one is not passed. */
static char take_char(struct decoder *d)
{
    return *d->p ? *d->p++ : 0;
}

static void put_bytes(struct decoder *d, const char *bytes, size_t len)
{
    if (len > ROOM_MAX - d->room.len)
        fail(d);
    else
        buf_put(&d->room, bytes, len);
}

static void put(struct decoder *d, const char *text)
{
    put_bytes(d, text, strlen(text));
}

static void put_piece(struct decoder *d, struct piece piece)
{
    /* The copied bytes are in the room, which must not move meanwhile. */
    if (piece.len > ROOM_MAX - d->room.len || !buf_reserve(&d->room, piece.len + 1))
        fail(d);
    else
        put_bytes(d, (const char *)d->room.data + piece.at, piece.len);
}

static void put_list(struct decoder *d, const struct piece *all, unsigned n)
{
    for (unsigned i = 0; i < n && !d->failed; i++) {
        put(d, i > 0 ? "," : "");
        put_piece(d, all[i]);
    }
}

static void put_number(struct decoder *d, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    put(d, digits);
}

/* What was put since the room had `at` bytes. */
static struct piece since(const struct decoder *d, size_t at)
{
    return d->failed ? (struct piece){0} : (struct piece){at, d->room.len - at};
}

static bool ends_with(const struct decoder *d, struct piece piece, char c)
{
    return piece.len > 0 && (char)d->room.data[piece.at + piece.len - 1] == c;
}

/* Puts `left`, and a space if none is at its end. */
static void put_spaced(struct decoder *d, struct piece left)
{
    put_piece(d, left);
    if (!d->failed && !ends_with(d, left, ' '))
        put(d, " ");
}

static void put_qualifiers(struct decoder *d, unsigned qualifiers)
{
    put(d, qualifiers & QUALIFIER_CONST ? " const" : "");
    put(d, qualifiers & QUALIFIER_VOLATILE ? " volatile" : "");
}

/* 1 to 10 as a digit, others as hexadecimal digits from A on that end with @. */
static uint64_t take_number(struct decoder *d, bool *negative)
{
    uint64_t value = 0;
    *negative = take_text(d, "?");
    if (*d->p >= '0' && *d->p <= '9')
        return (uint64_t)(*d->p++ - '0') + 1;
    while (*d->p >= 'A' && *d->p <= 'P')
        value = value << 4 | (uint64_t)(*d->p++ - 'A');
    if (!take_text(d, "@"))
        fail(d);
    return value;
}

static bool deeper(struct decoder *d)
{
    if (d->depth++ < DEPTH_MAX)
        return true;
    fail(d);
    return false;
}

/* ---- names */

static void remember_name(struct decoder *d, struct piece name)
{
    struct known *k = &d->known;
    if (d->failed || k->name_count == KNOWN_MAX)
        return;
    const char *room = (const char *)d->room.data;
    for (unsigned i = 0; i < k->name_count; i++) {
        if (view_equal((struct view){room + k->names[i].at, k->names[i].len},
                       (struct view){room + name.at, name.len}))
            return;
    }
    k->names[k->name_count++] = name;
}

/* The text up to the next @. `shown`: what stands for it, or NULL. */
static struct piece take_simple(struct decoder *d, const char *shown)
{
    size_t at = d->room.len, len = strcspn(d->p, "@");
    if (d->p[len] == 0 || (len == 0 && !shown)) {
        fail(d);
        return (struct piece){0};
    }
    const char *text = d->p;
    d->p += len + 1;
    put_bytes(d, shown ? shown : text, shown ? strlen(shown) : len);
    struct piece name = since(d, at);
    remember_name(d, name);
    return name;
}

static struct piece take_known(struct decoder *d)
{
    unsigned number = (unsigned)(take_char(d) - '0');
    if (number < d->known.name_count)
        return d->known.names[number];
    fail(d);
    return (struct piece){0};
}

static bool at_digit(const struct decoder *d)
{
    return *d->p >= '0' && *d->p <= '9';
}

/* "dynamic initializer for" and the like, with the variable. */
static struct piece take_of_variable(struct decoder *d, const char *what)
{
    bool is_member = take_text(d, "?");
    struct piece variable = is_member ? take_symbol(d, true) : take_simple(d, NULL);
    if (is_member && !take_text(d, "@"))
        fail(d);
    size_t at = d->room.len;
    put(d, what);
    put_piece(d, variable);
    put(d, "''");
    return since(d, at);
}

/* What follows "operator" by its code, or the quoted name of a function that the compiler makes. */
static const char *text_of_code(const char *code)
{
    static const char *const operators[] = {
        "2 new",    "3 delete",    "4=",           "5>>",   "6<<",   "7!",   "8==",  "9!=",
        "A[]",      "C->",         "D*",           "E++",   "F--",   "G-",   "H+",   "I&",
        "J->*",     "K/",          "L%",           "M<",    "N<=",   "O>",   "P>=",  "Q,",
        "R()",      "S~",          "T^",           "U|",    "V&&",   "W||",  "X*=",  "Y+=",
        "Z-=",      "_0/=",        "_1%=",         "_2>>=", "_3<<=", "_4&=", "_5|=", "_6^=",
        "_U new[]", "_V delete[]", "__L co_await", "__M<=>"};
    static const char *const made[] = {"_9`vcall'",
                                       "_D`vbase destructor'",
                                       "_E`vector deleting destructor'",
                                       "_F`default constructor closure'",
                                       "_G`scalar deleting destructor'",
                                       "_H`vector constructor iterator'",
                                       "_I`vector destructor iterator'",
                                       "_L`eh vector constructor iterator'",
                                       "_M`eh vector destructor iterator'",
                                       "_O`copy constructor closure'"};
    size_t len = 1 + strspn(code, "_");
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strncmp(code, operators[i], len) == 0)
            return operators[i] + len;
    }
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        if (strncmp(code, made[i], len) == 0)
            return made[i] + len;
    }
    return NULL;
}

/* Operators and functions that the compiler makes. */
static struct leaf take_code(struct decoder *d)
{
    struct leaf leaf = {0};
    size_t at = d->room.len;
    if (take_text(d, "0")) {
        leaf.role = LEAF_CONSTRUCTOR;
    } else if (take_text(d, "1")) {
        leaf.role = LEAF_DESTRUCTOR;
    } else if (take_text(d, "B")) {
        leaf.role = LEAF_CONVERSION;
    } else if (take_text(d, "__E")) {
        leaf.text = take_of_variable(d, "`dynamic initializer for '");
    } else if (take_text(d, "__F")) {
        leaf.text = take_of_variable(d, "`dynamic atexit destructor for '");
    } else if (take_text(d, "__K")) {
        struct piece name = take_simple(d, NULL);
        at = d->room.len;
        put(d, "operator \"\"");
        put_piece(d, name);
        leaf.text = since(d, at);
    } else {
        const char *text = text_of_code(d->p);
        if (text) {
            d->p += 1 + strspn(d->p, "_");
            put(d, *text == '`' ? "" : "operator");
            put(d, text);
        } else {
            fail(d);
        }
        leaf.text = since(d, at);
    }
    return leaf;
}

static struct piece finish_type(struct decoder *d, const struct type *type)
{
    size_t at = d->room.len;
    if (type->form == TYPE_PLAIN)
        put_piece(d, type->left);
    else
        put_spaced(d, type->left);
    put(d, type->form == TYPE_FUNCTION ? type->convention : "");
    put_piece(d, type->right);
    return since(d, at);
}

static unsigned take_qualifiers(struct decoder *d)
{
    char c = take_char(d);
    if (c >= 'A' && c <= 'D')
        return (unsigned)(c - 'A');
    fail(d);
    return 0;
}

/* One template argument. False at the separators of packs, which are not shown. */
static bool take_argument(struct decoder *d, struct piece *out)
{
    static const char *const separators[] = {"$$V", "$$$V", "$$Z", "$S"};
    for (size_t i = 0; i < sizeof separators / sizeof *separators; i++) {
        if (take_text(d, separators[i]))
            return false;
    }
    size_t at = d->room.len;
    bool negative, deduced = take_text(d, "$M");
    if (deduced) {
        (void)take_type(d, 0);
        at = d->room.len;
    }
    if (take_text(d, deduced ? "0" : "$0")) {
        uint64_t value = take_number(d, &negative);
        put(d, negative ? "-" : "");
        put_number(d, value);
    } else if (take_text(d, deduced ? "1?" : "$1?") || take_text(d, deduced ? "E?" : "$E?")) {
        bool pointer = d->p[-2] == '1';
        struct piece symbol = take_symbol(d, true);
        at = d->room.len;
        put(d, pointer ? "&" : "");
        put_piece(d, symbol);
    } else if (take_text(d, "$$Y")) {
        *out = take_type_name(d); /* of a template alias */
        return true;
    } else {
        (void)take_text(d, "$$B"); /* an array follows */
        struct type type = take_type(d, take_text(d, "$$C") ? take_qualifiers(d) : 0);
        *out = finish_type(d, &type);
        return true;
    }
    *out = since(d, at);
    return true;
}

/* Template arguments in angle brackets. */
static struct piece take_arguments(struct decoder *d)
{
    struct piece all[PARTS_MAX];
    unsigned n = 0;
    while (!d->failed && !take_text(d, "@")) {
        if (n == PARTS_MAX)
            fail(d);
        else
            n += take_argument(d, &all[n]);
    }
    size_t at = d->room.len;
    put(d, "<");
    put_list(d, all, n);
    put(d, n > 0 && !d->failed && ends_with(d, all[n - 1], '>') ? " >" : ">");
    return since(d, at);
}

/* A name with template arguments, behind the ?$. */
static struct leaf take_template(struct decoder *d)
{
    struct leaf leaf = {0};
    if (deeper(d)) {
        struct known outer = d->known;
        d->known = (struct known){0};
        if (take_text(d, "?"))
            leaf = take_code(d);
        else
            leaf.text = take_simple(d, NULL);
        leaf.arguments = take_arguments(d);
        d->known = outer;
    }
    d->depth--;
    return leaf;
}

static struct piece take_template_name(struct decoder *d)
{
    struct leaf leaf = take_template(d);
    if (leaf.role != LEAF_NAME)
        fail(d);
    size_t at = d->room.len;
    put_piece(d, leaf.text);
    put_piece(d, leaf.arguments);
    struct piece name = since(d, at);
    remember_name(d, name);
    return name;
}

/* A scope within a function: its number, and the function. */
static struct piece take_local(struct decoder *d)
{
    bool negative;
    uint64_t value = take_number(d, &negative);
    if (negative || !take_text(d, "??"))
        fail(d);
    struct piece function = take_symbol(d, true);
    size_t at = d->room.len;
    put(d, "`");
    put_piece(d, function);
    put(d, "'::`");
    put_number(d, value);
    put(d, "'");
    return since(d, at);
}

static struct piece take_scope(struct decoder *d)
{
    if (at_digit(d))
        return take_known(d);
    if (take_text(d, "?$"))
        return take_template_name(d);
    if (take_text(d, "?A"))
        return take_simple(d, anonymous);
    return take_text(d, "?") ? take_local(d) : take_simple(d, NULL);
}

/* Scopes up to the @ behind the outermost one, innermost first. */
static unsigned take_scopes(struct decoder *d, struct piece *scopes)
{
    unsigned n = 0;
    while (!d->failed && !take_text(d, "@")) {
        if (n == PARTS_MAX)
            fail(d);
        else
            scopes[n++] = take_scope(d);
    }
    return d->failed ? 0 : n;
}

static void put_scopes(struct decoder *d, const struct piece *scopes, unsigned n)
{
    while (n > 0 && !d->failed) {
        put_piece(d, scopes[--n]);
        put(d, "::");
    }
}

static struct piece take_type_name(struct decoder *d)
{
    struct piece scopes[PARTS_MAX], name = {0};
    if (at_digit(d))
        name = take_known(d);
    else
        name = take_text(d, "?$") ? take_template_name(d) : take_simple(d, NULL);
    unsigned n = take_scopes(d, scopes);
    size_t at = d->room.len;
    put_scopes(d, scopes, n);
    put_piece(d, name);
    return since(d, at);
}

/* ---- types */

static const char *take_convention(struct decoder *d)
{
    static const char *const names[] = {"__cdecl",   "__pascal",   "__thiscall",
                                        "__stdcall", "__fastcall", NULL,
                                        "__clrcall", "__eabi",     "__vectorcall"};
    char c = take_char(d);
    const char *name = c >= 'A' && c <= 'Q' ? names[(c - 'A') / 2] : NULL;
    if (!name)
        fail(d);
    return name ? name : "";
}

/* Parameters in parentheses. */
static struct piece take_parameters(struct decoder *d)
{
    struct piece all[PARTS_MAX];
    unsigned n = 0;
    bool variadic = false, empty = take_text(d, "X");
    while (!d->failed && !empty && !take_text(d, "@") && !(variadic = take_text(d, "Z"))) {
        struct type type = {0};
        const char *begin = d->p;
        struct known *k = &d->known;
        if (at_digit(d)) {
            unsigned number = (unsigned)(take_char(d) - '0');
            if (number < k->type_count)
                type = k->types[number];
            else
                fail(d);
        } else {
            type = take_type(d, 0);
            if (!d->failed && d->p - begin > 1 && k->type_count < KNOWN_MAX)
                k->types[k->type_count++] = type;
        }
        if (n == PARTS_MAX)
            fail(d);
        else
            all[n++] = finish_type(d, &type);
    }
    size_t at = d->room.len;
    put(d, empty ? "(void" : "(");
    put_list(d, all, n);
    put(d, variadic ? ",...)" : ")");
    return since(d, at);
}

static void take_pointer_marks(struct decoder *d)
{
    (void)take_text(d, "E"); /* 64 bits */
    (void)take_text(d, "I"); /* restrict */
    (void)take_text(d, "F"); /* unaligned */
}

/* A function from its calling convention on; `is_member`: from the qualifiers of `this` on. */
static struct type take_function(struct decoder *d, bool is_member, struct type *returned)
{
    struct type type = {.form = TYPE_FUNCTION, .convention = ""};
    unsigned qualifiers = 0;
    const char *reference = "";
    if (is_member) {
        take_pointer_marks(d);
        reference = take_text(d, "G") ? "&" : take_text(d, "H") ? "&&" : "";
        qualifiers = take_qualifiers(d);
    }
    type.convention = take_convention(d);
    struct type result = {0};
    if (!take_text(d, "@"))
        result = take_type(d, take_text(d, "?") ? take_qualifiers(d) : 0);
    struct piece parameters = take_parameters(d);
    if (!take_text(d, "Z") && !take_text(d, "_E"))
        fail(d);
    size_t at = d->room.len;
    put_piece(d, parameters);
    put_qualifiers(d, qualifiers);
    put(d, reference);
    put_piece(d, result.right);
    type.right = since(d, at);
    type.left = result.left;
    if (returned)
        *returned = result;
    return type;
}

static struct type take_array(struct decoder *d, unsigned qualifiers)
{
    bool negative;
    struct piece sizes = {d->room.len, 0};
    for (uint64_t rank = take_number(d, &negative); rank > 0 && !d->failed; rank--) {
        put(d, "[");
        put_number(d, take_number(d, &negative));
        put(d, "]");
    }
    sizes = since(d, sizes.at);
    if (take_text(d, "$$C"))
        qualifiers |= take_qualifiers(d);
    struct type type = take_type(d, qualifiers);
    size_t at = d->room.len;
    put_piece(d, sizes);
    put_piece(d, type.right);
    return (struct type){.form = TYPE_ARRAY, .left = type.left, .right = since(d, at)};
}

/* What a pointer, a reference or a pointer to a member points to. `of`: the member's class. */
static struct type take_pointee(struct decoder *d, struct piece *of)
{
    if (take_text(d, "6"))
        return take_function(d, false, NULL);
    take_pointer_marks(d);
    if (take_text(d, "8")) {
        *of = take_type_name(d);
        return take_function(d, true, NULL);
    }
    if (*d->p < 'Q' || *d->p > 'T') {
        unsigned qualifiers = take_qualifiers(d);
        return take_type(d, qualifiers);
    }
    unsigned qualifiers = (unsigned)(*d->p++ - 'Q');
    *of = take_type_name(d);
    return take_type(d, qualifiers);
}

static struct type take_pointer(struct decoder *d, const char *sign, unsigned qualifiers)
{
    struct piece of = {0};
    struct type to = take_pointee(d, &of);
    bool around = to.form != TYPE_PLAIN;
    size_t at = d->room.len;
    /* No space between the signs of a pointer to a function pointer. */
    if (to.form == TYPE_PLAIN && to.right.len > 0)
        put_piece(d, to.left);
    else
        put_spaced(d, to.left);
    put(d, around ? "(" : "");
    put(d, to.form == TYPE_FUNCTION ? to.convention : "");
    if (of.len > 0) {
        put(d, to.form == TYPE_FUNCTION ? " " : "");
        put_piece(d, of);
        put(d, "::");
    }
    put(d, sign);
    put_qualifiers(d, qualifiers);
    struct type type = {.left = since(d, at)};
    at = d->room.len;
    put(d, around ? ")" : "");
    put_piece(d, to.right);
    type.right = since(d, at);
    return type;
}

/* A named or a basic type. */
static struct type take_plain(struct decoder *d, unsigned qualifiers)
{
    static const char *const basic[] = {
        "Xvoid",           "Csigned char", "Dchar",         "Eunsigned char", "Fshort",
        "Gunsigned short", "Hint",         "Iunsigned int", "Jlong",          "Kunsigned long",
        "Mfloat",          "Ndouble",      "Olong double"};
    static const char *const more[] = {
        "Nbool",     "J__int64",           "Kunsigned __int64", "Wwchar_t",
        "Qchar8_t",  "Schar16_t",          "Uchar32_t",         "Pauto",
        "L__int128", "Munsigned __int128", "Tdecltype(auto)"};
    struct piece name = {0};
    size_t at = d->room.len;
    if (take_text(d, "T") || take_text(d, "U") || take_text(d, "V") || take_text(d, "W4")) {
        name = take_type_name(d);
        at = d->room.len;
        put_piece(d, name);
    } else if (take_text(d, "$$T")) {
        put(d, "std::nullptr_t");
    } else {
        bool is_more = take_text(d, "_");
        const char *const *names = is_more ? more : basic;
        size_t i = 0, n = is_more ? sizeof more / sizeof *more : sizeof basic / sizeof *basic;
        char c = take_char(d);
        while (i < n && names[i][0] != c)
            i++;
        if (i < n)
            put(d, names[i] + 1);
        else
            fail(d);
    }
    put_qualifiers(d, qualifiers);
    put(d, qualifiers ? " " : "");
    return (struct type){.left = since(d, at)};
}

static struct type take_type_here(struct decoder *d, unsigned qualifiers)
{
    static const struct {
        const char *code, *sign;
        unsigned qualifiers;
    } pointers[] = {{"A", "&", 0},
                    {"P", "*", 0},
                    {"Q", "*", QUALIFIER_CONST},
                    {"R", "*", QUALIFIER_VOLATILE},
                    {"S", "*", QUALIFIER_CONST | QUALIFIER_VOLATILE},
                    {"$$Q", "&&", 0}};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        if (take_text(d, pointers[i].code))
            return take_pointer(d, pointers[i].sign, qualifiers | pointers[i].qualifiers);
    }
    if (take_text(d, "Y"))
        return take_array(d, qualifiers);
    if (take_text(d, "$$A6"))
        return take_function(d, false, NULL);
    if (take_text(d, "$$A8@@"))
        return take_function(d, true, NULL);
    return take_plain(d, qualifiers);
}

static struct type take_type(struct decoder *d, unsigned qualifiers)
{
    struct type type = {0};
    if (deeper(d))
        type = take_type_here(d, qualifiers);
    d->depth--;
    return type;
}

/* ---- symbols */

/* What follows a symbol's name: its type. The result of a function. */
static struct type take_encoding(struct decoder *d)
{
    struct type result = {0};
    bool negative, is_member = true;
    unsigned adjustments = 0;
    (void)take_text(d, "$$J0"); /* extern "C" */
    char c = take_char(d);
    if (c == '8' || c == '9')
        return result;
    if (c >= '0' && c <= '4') {
        (void)take_type(d, 0);
        take_pointer_marks(d);
        (void)take_qualifiers(d);
        return result;
    }
    if (c == '$') {
        adjustments = take_text(d, "R") ? 4 : 2;
        c = take_char(d);
        if (c < '0' || c > '5')
            fail(d);
    } else if (c >= 'A' && c <= 'Z') {
        unsigned access = (unsigned)(c - 'A') % 8; /* ordinary, static, virtual, of a thunk */
        is_member = access / 2 != 1 && c < 'Y';
        adjustments = access / 2 == 3;
    } else {
        fail(d);
    }
    while (adjustments-- > 0)
        (void)take_number(d, &negative);
    (void)take_function(d, is_member, &result);
    return result;
}

static struct leaf take_leaf(struct decoder *d)
{
    if (take_text(d, "?$"))
        return take_template(d);
    if (take_text(d, "?"))
        return take_code(d);
    return (struct leaf){.text = at_digit(d) ? take_known(d) : take_simple(d, NULL)};
}

static struct piece take_symbol_here(struct decoder *d, bool with_type)
{
    struct piece scopes[PARTS_MAX], converted = {0};
    struct leaf leaf = take_leaf(d);
    unsigned n = take_scopes(d, scopes);
    if (*d->p == 0)
        fail(d); /* a type follows */
    if (leaf.role == LEAF_CONVERSION || with_type) {
        struct type result = take_encoding(d);
        if (leaf.role == LEAF_CONVERSION)
            converted = finish_type(d, &result);
    }
    bool is_structor = leaf.role == LEAF_CONSTRUCTOR || leaf.role == LEAF_DESTRUCTOR;
    if (is_structor && n == 0)
        fail(d);
    size_t at = d->room.len;
    put_scopes(d, scopes, n);
    if (is_structor && n > 0) {
        put(d, leaf.role == LEAF_DESTRUCTOR ? "~" : "");
        put_piece(d, scopes[0]);
    }
    put(d, leaf.role == LEAF_CONVERSION ? "operator " : "");
    put_piece(d, converted);
    put_piece(d, leaf.text);
    put_piece(d, leaf.arguments);
    return since(d, at);
}

/* A symbol's name, behind its question mark. `with_type`: something follows its type. */
static struct piece take_symbol(struct decoder *d, bool with_type)
{
    struct piece symbol = {0};
    if (deeper(d))
        symbol = take_symbol_here(d, with_type);
    d->depth--;
    return symbol;
}

static bool undecorate(const char *name, struct buf *out)
{
    struct decoder d = {.p = name + 1};
    struct piece symbol = take_symbol(&d, false);
    bool ok =
        !d.failed && !d.room.failed && symbol.len <= MSVC_NAME_MAX && (*d.p || d.p[-1] != '@');
    if (ok)
        buf_put(out, d.room.data + symbol.at, symbol.len);
    buf_release(&d.room);
    return ok;
}

bool msvc_name(const char *name, struct buf *out)
{
    const char *hash = strstr(name, "?A0x");
    if (!hash || (name[0] == '?' && !strstr(name, "::")))
        return name[0] == '?' && undecorate(name, out);
    for (; hash; hash = strstr(name, "?A0x")) {
        buf_put(out, name, (size_t)(hash - name));
        buf_puts(out, anonymous);
        name = hash + 4 + strspn(hash + 4, "0123456789abcdefABCDEF");
    }
    buf_puts(out, name);
    return true;
}
