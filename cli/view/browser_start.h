#pragma once

/* Opens a file in the browser of the user's desktop. */

#include <stdbool.h>

/*
 * Runs `xdg-open PATH` if there is a desktop (DISPLAY or WAYLAND_DISPLAY), without this program's
 * standard streams. False if there is none, no xdg-open, or it fails within seconds.
 */
bool browser_start(char *path);
