#ifndef TIDEMARK_SYMBOLS_ELF_REGULAR_FILE_H
#define TIDEMARK_SYMBOLS_ELF_REGULAR_FILE_H

/*
 * Opens `path` for reading when it is a regular file, after links. Anything else (a device, a FIFO,
 * a socket) is looked at without being opened, so that nothing happens to it. Returns a descriptor,
 * or -1 with errno (EINVAL: not a regular file).
 */
int regular_file_open(const char *path);

/* The same of what was opened with O_PATH, which is closed. ENOENT where /proc is not mounted. */
int regular_file_open_place(int place);

#endif
