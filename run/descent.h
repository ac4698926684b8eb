#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process is `ancestor` or its descendant. An orphan is re-parented to init and does not
 * match.
 */
bool descends_from(pid_t pid, pid_t ancestor);
