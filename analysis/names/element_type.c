#include "analysis/names/element_type.h"

#include <string.h>

#include "analysis/names/element_type_d.h"
#include "analysis/names/function_name.h"
#include "analysis/names/type_text.h"

#define PATH_MAX_LENGTH 128u
#define UNWRAP_MAX 8u /* types in types */

/* The template argument that is the type. */
enum holder {
    OF_CLASS,        /* the first one of the function's class */
    OF_CLASS_SECOND, /* the second one */
    OF_FUNCTION,     /* the first one of the function */
    ALLOCATOR_OF_CLASS,
    ALLOCATOR_OF_FUNCTION, /* an allocator, with the type as its argument */
};

struct rule {
    const char *path; /* names joined; ends in * for any function of the class */
    enum holder holder;
    enum element_evidence evidence;
};

static const struct rule rules[] = {
    /* allocators of libstdc++ and libc++ */
    {"std::allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"std::allocator::allocate_at_least", OF_CLASS, ELEMENT_SURE},
    {"std::__new_allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::new_allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::malloc_allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::__mt_alloc::allocate", OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::__pool_alloc::allocate", OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::bitmap_allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"std::pmr::polymorphic_allocator::allocate", OF_CLASS, ELEMENT_SURE},
    {"std::allocator_traits::allocate", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    {"std::allocator_traits::allocate_at_least", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    {"std::allocator_traits::_S_allocate", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::__alloc_traits::allocate", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    {"__gnu_cxx::__alloc_traits::_S_allocate", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    {"std::__allocate_guarded", ALLOCATOR_OF_FUNCTION, ELEMENT_SURE},
    {"std::__allocate_at_least", ALLOCATOR_OF_FUNCTION, ELEMENT_SURE},
    {"std::__allocation_guard::__allocation_guard", ALLOCATOR_OF_CLASS, ELEMENT_SURE},
    /* containers, for unknown allocators */
    {"std::_Vector_base::_M_allocate", OF_CLASS, ELEMENT_SURE},
    {"std::_Vector_base::_M_create_storage", OF_CLASS, ELEMENT_SURE},
    {"std::vector::__vallocate", OF_CLASS, ELEMENT_SURE},
    {"std::_Deque_base::_M_allocate_node", OF_CLASS, ELEMENT_SURE},
    {"std::_List_base::_M_get_node", OF_CLASS, ELEMENT_SURE},
    {"std::_Fwd_list_base::_M_get_node", OF_CLASS, ELEMENT_SURE},
    {"std::_Rb_tree::_M_get_node", OF_CLASS_SECOND, ELEMENT_SURE},
    {"std::basic_string::*", OF_CLASS, ELEMENT_DIRECT},
    {"std::get_temporary_buffer", OF_FUNCTION, ELEMENT_SURE},
    {"std::__detail::__get_temporary_buffer", OF_FUNCTION, ELEMENT_SURE},
    /* `new` of an argument: known only if inlined constructors are visible */
    {"std::make_unique", OF_FUNCTION, ELEMENT_IN_LINE},
    {"std::make_unique_for_overwrite", OF_FUNCTION, ELEMENT_IN_LINE},
    {"std::_Function_base::_Base_manager::_M_create", OF_CLASS, ELEMENT_IN_LINE},
    {"std::any::_Manager_external::_S_create", OF_CLASS, ELEMENT_IN_LINE},
    /* Rust: the value of a box exists before the box */
    {"alloc::boxed::Box::new", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_uninit", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_uninit_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_zeroed", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_zeroed_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::try_new", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::try_new_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::try_new_uninit_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::try_new_zeroed_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::pin", OF_CLASS, ELEMENT_SURE},
    {"alloc::boxed::Box::new_uninit_slice", OF_CLASS, ELEMENT_SURE},
    {"alloc::raw_vec::RawVec::*", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::with_capacity", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::with_capacity_in", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::try_with_capacity", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::push", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::push_mut", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::insert", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::insert_mut", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::append", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::reserve", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::reserve_exact", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::try_reserve", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::try_reserve_exact", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::shrink_to_fit", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::shrink_to", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::into_boxed_slice", OF_CLASS, ELEMENT_SURE},
    {"alloc::vec::Vec::split_off", OF_CLASS, ELEMENT_SURE},
    {"alloc::collections::vec_deque::VecDeque::grow", OF_CLASS, ELEMENT_SURE},
    {"alloc::collections::vec_deque::VecDeque::with_capacity", OF_CLASS, ELEMENT_SURE},
    {"alloc::collections::vec_deque::VecDeque::push_back", OF_CLASS, ELEMENT_SURE},
    {"alloc::collections::vec_deque::VecDeque::push_front", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::new", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::pin", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::new_uninit", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::allocate_for_layout", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::try_allocate_for_layout", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::allocate_for_slice", OF_CLASS, ELEMENT_SURE},
    {"alloc::sync::Arc::allocate_for_ptr", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::new", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::pin", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::new_uninit", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::allocate_for_layout", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::try_allocate_for_layout", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::allocate_for_slice", OF_CLASS, ELEMENT_SURE},
    {"alloc::rc::Rc::allocate_for_ptr", OF_CLASS, ELEMENT_SURE},
    {"hashbrown::raw::RawTable::reserve_rehash", OF_CLASS, ELEMENT_SURE},
    {"hashbrown::raw::RawTable::with_capacity_in", OF_CLASS, ELEMENT_SURE},
    {"hashbrown::raw::RawTable::new_uninitialized", OF_CLASS, ELEMENT_SURE},
    {"hashbrown::raw::RawTable::fallible_with_capacity", OF_CLASS, ELEMENT_SURE},
};

/* Templates whose first argument is the type of their elements. */
static const char *const allocators[] = {
    "std::allocator",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "__gnu_cxx::malloc_allocator",
    "__gnu_cxx::__mt_alloc",
    "__gnu_cxx::__pool_alloc",
    "__gnu_cxx::bitmap_allocator",
    "std::pmr::polymorphic_allocator",
};

/* Types around the first argument, which is the user's element. */
static const char *const wrappers[] = {
    "std::_Rb_tree_node",
    "std::_List_node",
    "std::_Fwd_list_node",
    "std::__detail::_Hash_node",
    "std::_Sp_counted_ptr_inplace",
    "std::__tree_node",
    "std::__list_node",
    "std::__forward_list_node",
    "std::__hash_node",
    "std::__shared_ptr_emplace",
    "std::__function::__func",
    "alloc::sync::ArcInner",
    "alloc::rc::RcInner",
    "alloc::rc::RcBox",
    "alloc::collections::linked_list::Node",
};

static bool is_one_of(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, list[i]) == 0)
            return true;
    }
    return false;
}

/*
 * Splits a type that is one qualified name with arguments into its joined names and the arguments.
 */
static bool take_template(struct view type, char path[PATH_MAX_LENGTH], struct view *args)
{
    struct name_parts parts;
    if (!name_parts_of_type(type, &parts) || parts.rest.len ||
        name_parts_join(&parts, path, PATH_MAX_LENGTH) == 0)
        return false;
    *args = parts.at[parts.n - 1].args;
    return args->len != 0;
}

/* Removes what containers put around an element. Empty if there is nothing inside. */
static struct view unwrap(struct view type, bool *is_pair)
{
    char path[PATH_MAX_LENGTH];
    struct view args;
    *is_pair = false;
    for (unsigned i = 0; i < UNWRAP_MAX && take_template(type, path, &args); i++) {
        if (strcmp(path, "std::__value_type") == 0 || strcmp(path, "std::__hash_value_type") == 0) {
            *is_pair = true;
            return args;
        }
        if (!is_one_of(path, wrappers, sizeof wrappers / sizeof *wrappers))
            break;
        type = type_argument(args, 0);
    }
    return type;
}

/* ---- Rust */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || (c & 0x80);
}

static bool is_rust_word(struct view word)
{
    static const char *const words[] = {
        "u8",     "u16",  "u32",   "u64",   "u128",   "usize", "i8",   "i16",  "i32",
        "i64",    "i128", "isize", "f16",   "f32",    "f64",   "f128", "bool", "char",
        "str",    "dyn",  "mut",   "const", "fn",     "for",   "as",   "impl", "unsafe",
        "extern", "true", "false", "C",     "system", "Rust"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (view_equal(word, view_of(words[i])))
            return true;
    }
    return false;
}

/*
 * A single word is a type of the language, or a parameter of a name that was written without the
 * arguments (`Box<T>`). Items of the library and of programs have paths.
 */
static bool is_rust_type(struct view type)
{
    const char *end = type.p + type.len;
    const char *p = type.p;
    while (p < end) {
        if (!is_letter(*p) || (p > type.p && (is_name_char(p[-1]) || p[-1] == '#'))) {
            p++;
            continue;
        }
        const char *past = p;
        while (past < end && is_name_char(*past))
            past++;
        bool after_path = p - type.p >= 2 && p[-1] == ':' && p[-2] == ':';
        bool before_path = end - past >= 2 && past[0] == ':' && past[1] == ':';
        bool lifetime = p > type.p && p[-1] == '\'';
        bool assigned = end - past >= 3 && memcmp(past, " = ", 3) == 0; /* Output = u8 */
        bool inside = p > type.p && p[-1] == '{';                       /* {closure#0} */
        if (!after_path && !before_path && !lifetime && !assigned && !inside &&
            !is_rust_word((struct view){p, (size_t)(past - p)}))
            return false;
        p = past;
    }
    return type.len != 0;
}

/* `[T]`, which has no length: an element is a T. */
static struct view element_of_slice(struct view type)
{
    if (type.len < 3 || type.p[0] != '[' || type.p[type.len - 1] != ']')
        return type;
    struct view inner = {type.p + 1, type.len - 2};
    for (size_t i = 0; i < inner.len; i++) {
        if (inner.p[i] == ';' || inner.p[i] == '[' || inner.p[i] == ']')
            return type;
    }
    return inner;
}

/* ---- functions */

static const struct rule *find_rule(const char *path)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = strlen(rules[i].path);
        bool any = rules[i].path[n - 1] == '*';
        if (any ? strncmp(path, rules[i].path, n - 1) == 0 && !strstr(path + n - 1, "::")
                : strcmp(path, rules[i].path) == 0)
            return &rules[i];
    }
    return NULL;
}

/* The first argument of an allocator, if the allocator is known. */
static struct view of_allocator(struct view allocator)
{
    static const struct view none = {"", 0};
    char path[PATH_MAX_LENGTH];
    struct view args;
    while (allocator.len &&
           (allocator.p[allocator.len - 1] == '&' || allocator.p[allocator.len - 1] == ' '))
        allocator.len--;
    if (!take_template(allocator, path, &args) ||
        !is_one_of(path, allocators, sizeof allocators / sizeof *allocators))
        return none;
    return type_argument(args, 0);
}

static struct view find_type(const struct rule *r, const struct name_parts *parts)
{
    static const struct view none = {"", 0};
    bool own = r->holder == OF_FUNCTION || r->holder == ALLOCATOR_OF_FUNCTION;
    if (parts->n < 2)
        return none;
    struct view args = parts->at[parts->n - (own ? 1 : 2)].args;
    struct view type = type_argument(args, r->holder == OF_CLASS_SECOND ? 1 : 0);
    bool allocator = r->holder == ALLOCATOR_OF_CLASS || r->holder == ALLOCATOR_OF_FUNCTION;
    return allocator ? of_allocator(type) : type;
}

static void put_pair(struct buf *out, struct view args)
{
    buf_puts(out, "std::pair<");
    type_put_short(out, type_argument(args, 0));
    buf_puts(out, " const, ");
    type_put_short(out, type_argument(args, 1));
    buf_puts(out, ">");
}

bool element_type_is_merged(struct view text)
{
    for (size_t i = 0; i + 2 < text.len; i++) {
        if (text.p[i + 1] == '_' && strchr("<([{ ", text.p[i]) && strchr(">)]},", text.p[i + 2]))
            return true;
    }
    return false;
}

enum element_evidence element_type(struct view function, struct buf *out)
{
    struct name_parts parts;
    char path[PATH_MAX_LENGTH];
    bool is_pair;
    if (function_is_unnamed(function, NULL))
        return ELEMENT_NONE;
    if (element_type_is_d(function))
        return element_type_d(function, out);
    if (element_type_is_merged(function) || !name_parts_of_function(function, &parts) ||
        name_parts_join(&parts, path, sizeof path) == 0)
        return ELEMENT_NONE;
    const struct rule *r = find_rule(path);
    struct view type = r ? find_type(r, &parts) : (struct view){"", 0};
    if (type.len == 0)
        return ELEMENT_NONE;
    type = unwrap(type, &is_pair);
    if (strncmp(r->path, "alloc::", 7) == 0 || strncmp(r->path, "hashbrown::", 11) == 0) {
        if (!is_rust_type(type))
            return ELEMENT_NONE;
        type = element_of_slice(type);
    }
    /* make_unique<T[]> */
    if (r->holder == OF_FUNCTION && type.len > 2 && memcmp(type.p + type.len - 2, "[]", 2) == 0) {
        type.len -= 2;
        while (type.len && type.p[type.len - 1] == ' ')
            type.len--;
    }
    if (type.len == 0)
        return ELEMENT_NONE;
    if (is_pair)
        put_pair(out, type);
    else
        type_put_short(out, type);
    return r->evidence;
}
