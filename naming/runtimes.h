#pragma once

/* Programs that run code which they generate, and keep their objects in separate heaps. */

struct runtime {
    const char *program; /* the executable's name, without the folder */
    const char *heap;    /* whose objects malloc does not see */
    const char *advice;  /* options that give names and call stacks */
    const char *exact;   /* of code that moves, too: which option instead of which; or NULL */
};

/* By the path of an executable. NULL: it is none of them. */
const struct runtime *runtime_find(const char *executable);
