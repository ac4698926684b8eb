#include "server/daemon/token.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_LEAST 16u
#define TOKEN_MOST 256u

/* Characters that need no escaping in a header or a cookie. */
#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"

char *token_parse(const char *value, struct err *e)
{
    char text[TOKEN_MOST + 3] = "";
    if (*value == '@') {
        FILE *f = fopen(value + 1, "re");
        if (!f) {
            err_errno(e, ERR_USAGE, "--token %s", value);
            return NULL;
        }
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        text[strcspn(text, "\r\n")] = 0;
        fclose(f);
    } else {
        snprintf(text, sizeof text, "%s", value);
    }
    size_t len = strlen(text);
    if (len < TOKEN_LEAST || len > TOKEN_MOST || strspn(text, TOKEN_LETTERS) != len) {
        err_set(e, ERR_USAGE, "--token takes %u to %u letters, digits, '-', '_', '.' and '~'",
                TOKEN_LEAST, TOKEN_MOST);
        return NULL;
    }
    char *token = strdup(text);
    if (!token)
        err_no_memory(e, "the token");
    return token;
}
