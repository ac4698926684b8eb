#pragma once

/*
 * Where the files of a process's memory cgroup are. Source: cgroups(7), proc(5) mountinfo; of
 * version 1 and 2, the hierarchy that has the memory controller.
 */

#include <stddef.h>
#include <stdint.h>

enum cgroup_version { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

struct cgroup_memory {
    enum cgroup_version version;
    char folder[4096];
    size_t mount; /* length of the mount point, with which `folder` begins */
};

/*
 * `groups`: the text of /proc/PID/cgroup. `mounts`: that of /proc/self/mountinfo. CGROUP_NONE: the
 * cgroup is not below a mount that this process sees.
 */
void cgroup_memory_find(const char *groups, const char *mounts, struct cgroup_memory *out);
