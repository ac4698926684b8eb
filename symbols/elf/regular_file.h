#pragma once

/*
 * Opens `path` for reading if it is a regular file, after symlinks. Other types (devices, FIFOs,
 * sockets) are inspected without being opened, so opening them has no side effect. Returns a
 * descriptor, or -1 with errno (EINVAL: not a regular file).
 */
int regular_file_open(const char *path);

/*
 * As regular_file_open, for a descriptor opened with O_PATH, which is closed. ENOENT if /proc is
 * not mounted.
 */
int regular_file_open_place(int place);
