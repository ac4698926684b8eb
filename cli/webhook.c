#include "cli/webhook.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void webhook_release(struct webhook *w)
{
    free(w->address);
    free(w->path);
    *w = (struct webhook){0};
}

/* What would end the request's first line, or mean something else to the server than to us. */
static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '#' ||
            *text == '"' || *text == '\\' || *text == '<' || *text == '>')
            return false;
    }
    return true;
}

int webhook_parse(struct webhook *w, const char *url, struct err *e)
{
    static const char scheme[] = "http://", safe[] = "https://";
    struct buf address = {0};
    webhook_release(w);
    if (strncmp(url, safe, sizeof safe - 1) == 0)
        return err_set(e, ERR_USAGE,
                       "--webhook takes http only: for TLS let --on-finish and --on-alert start a "
                       "program that does it, or send to a proxy on this host");
    size_t n = strlen(url) > sizeof scheme - 1 ? strcspn(url + sizeof scheme - 1, "/?") : 0;
    const char *host = url + sizeof scheme - 1;
    if (strncmp(url, scheme, sizeof scheme - 1) != 0 || n == 0 || !is_plain(url) ||
        memchr(host, '@', n))
        return err_set(e, ERR_USAGE, "--webhook takes http://HOST[:PORT][/PATH], not '%s'", url);
    const char *colon = memrchr(host, ':', n), *bracket = memrchr(host, ']', n);
    buf_put(&address, host, n);
    if (!colon || (bracket && bracket > colon))
        buf_puts(&address, ":80");
    w->address = address.failed ? NULL : strdup(buf_str(&address));
    buf_clear(&address);
    buf_printf(&address, "%s%s", host[n] == '/' ? "" : "/", host + n);
    w->path = address.failed ? NULL : strdup(buf_str(&address));
    buf_release(&address);
    if (w->address && w->path)
        return 0;
    webhook_release(w);
    return err_no_memory(e, "options");
}
