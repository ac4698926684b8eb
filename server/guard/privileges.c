#include "server/guard/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two words each: capabilities 0 to 31, and 32 to 63. */
static bool read_sets(struct __user_cap_data_struct sets[2])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &head, sets) == 0;
}

static int write_sets(const struct __user_cap_data_struct sets[2])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capset, &head, sets) == 0 ? 0 : -1;
}

bool privileges_held(void)
{
    struct __user_cap_data_struct sets[2] = {{0}};
    return read_sets(sets) && (sets[0].permitted | sets[1].permitted) != 0;
}

/* Changing the bounding set needs a capability; without it, no_new_privs alone has to do. */
int privileges_keep(uint64_t kept, struct err *e)
{
    struct __user_cap_data_struct sets[2] = {{0}};
    if (!read_sets(sets) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return err_errno(e, ERR_USAGE, "cannot give up privileges");
    for (unsigned long n = 0; prctl(PR_CAPBSET_DROP, n, 0, 0, 0) == 0;)
        n++;
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        sets[i].permitted &= (uint32_t)(kept >> (32 * i));
        sets[i].effective = sets[i].permitted;
        sets[i].inheritable = 0;
    }
    return write_sets(sets) == 0 ? 0 : err_errno(e, ERR_USAGE, "cannot give up privileges");
}
