#include "server/capture/run_signpost.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[RUN_SIGNPOSTS] = {
    [RUN_SIGNPOST_TRACE] = "trace", [RUN_SIGNPOST_LISTENER] = "listener"};

static bool path_of(char path[PATH_MAX], const char *folder, enum run_signpost which)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, names[which]);
    return n > 0 && n < PATH_MAX;
}

void run_signpost_put(const char *folder, enum run_signpost which, const char *text)
{
    char path[PATH_MAX];
    if (!path_of(path, folder, which))
        return;
    (void)unlink(path);
    if (text)
        (void)!symlink(text, path);
}

void run_signpost_remove(const char *folder)
{
    for (enum run_signpost i = 0; i < RUN_SIGNPOSTS; i++)
        run_signpost_put(folder, i, NULL);
}

/* Takes "…/tidemark-run.123/456.0.recording" from the end of a line and cuts it to the folder. */
static char *folder_of_recording(char *line)
{
    static const char ending[] = ".recording";
    char *path = strchr(line, '/');
    if (!path)
        return NULL;
    path[strcspn(path, "\n")] = 0;
    size_t length = strlen(path);
    char *slash = strrchr(path, '/');
    if (length < sizeof ending || strcmp(path + length - (sizeof ending - 1), ending) != 0)
        return NULL;
    *slash = 0;
    const char *folder = strrchr(path, '/');
    return folder && strncmp(folder, "/tidemark-run.", 14) == 0 ? path : NULL;
}

static void read_all(const char *folder, struct buf texts[RUN_SIGNPOSTS])
{
    char path[PATH_MAX], text[PATH_MAX];
    for (enum run_signpost i = 0; i < RUN_SIGNPOSTS; i++) {
        ssize_t n = path_of(path, folder, i) ? readlink(path, text, sizeof text) : -1;
        if (n > 0)
            buf_put(&texts[i], text, (size_t)n);
    }
}

bool run_signpost_read(pid_t pid, struct buf texts[RUN_SIGNPOSTS])
{
    char path[64], *line = NULL, *folder = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !folder && getline(&line, &room, maps) > 0)
        folder = folder_of_recording(line);
    if (folder)
        read_all(folder, texts);
    free(line);
    if (maps)
        fclose(maps);
    return folder != NULL;
}
