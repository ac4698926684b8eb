/* Folders of sockets: what somebody left goes, what somebody has stays. */

#include <setjmp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/net/socket_folder.h"

struct fixture {
    char parent[64];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    snprintf(f->parent, sizeof f->parent, "/tmp/folders-XXXXXX");
    return mkdtemp(f->parent) ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    int status = rmdir(f->parent);
    free(f);
    return status;
}

/* Makes a socket at a path, which nobody listens on afterwards. */
static void bind_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void make_old(const char *folder)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, folder, times, 0), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* As if who has it were killed: the lock goes, all else stays. */
static void kill_owner(struct socket_folder *f)
{
    close(f->lock);
    f->lock = -1;
}

static void goes_with_its_owner(void **state)
{
    struct fixture *f = *state;
    struct socket_folder one;
    struct err e = {0};
    struct stat st;
    assert_int_equal(socket_folder_make(&one, f->parent, &e), 0);
    assert_int_equal(stat(one.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    bind_socket(one.socket);
    char *path = strdup(one.path);
    socket_folder_release(&one);
    assert_false(is_there(path));
    free(path);
}

static void left_ones_are_removed(void **state)
{
    struct fixture *f = *state;
    struct socket_folder left, shared, held, young, full, next;
    struct err e = {0};
    char more[256];
    assert_int_equal(socket_folder_make(&left, f->parent, &e), 0);
    assert_int_equal(socket_folder_make(&shared, f->parent, &e), 0);
    assert_int_equal(socket_folder_make(&held, f->parent, &e), 0);
    assert_int_equal(socket_folder_make(&young, f->parent, &e), 0);
    assert_int_equal(socket_folder_make(&full, f->parent, &e), 0);
    assert_int_equal(chmod(shared.path, 0711), 0); /* as root's, whose programs change user */
    bind_socket(left.socket);
    bind_socket(shared.socket);
    bind_socket(held.socket);
    bind_socket(young.socket);
    snprintf(more, sizeof more, "%s/socket", full.path);
    assert_int_equal(mkdir(more, 0700), 0); /* no socket, so none of ours */
    kill_owner(&left);
    kill_owner(&shared);
    kill_owner(&young);
    kill_owner(&full);
    make_old(left.path);
    make_old(shared.path);
    make_old(held.path);
    make_old(full.path);
    assert_int_equal(socket_folder_make(&next, f->parent, &e), 0);
    assert_false(is_there(left.path));
    assert_false(is_there(shared.path));
    assert_true(is_there(held.socket));
    assert_true(is_there(young.socket));
    assert_true(is_there(more));
    rmdir(more);
    socket_folder_release(&left);
    socket_folder_release(&shared);
    socket_folder_release(&held);
    socket_folder_release(&young);
    socket_folder_release(&full);
    socket_folder_release(&next);
}

static void links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    struct socket_folder left, next;
    struct err e = {0};
    char away[96], link[128], socket[128];
    snprintf(away, sizeof away, "%s/elsewhere", f->parent);
    snprintf(socket, sizeof socket, "%s/socket", away);
    snprintf(link, sizeof link, "%s/tidemark-abcdef", f->parent);
    assert_int_equal(socket_folder_make(&left, f->parent, &e), 0);
    bind_socket(left.socket);
    kill_owner(&left);
    assert_int_equal(rename(left.path, away), 0);
    make_old(away);
    assert_int_equal(symlink(away, link), 0);
    assert_int_equal(socket_folder_make(&next, f->parent, &e), 0);
    assert_true(is_there(socket));
    unlink(link);
    unlink(socket);
    rmdir(away);
    socket_folder_release(&left);
    socket_folder_release(&next);
}

static void without_a_parent(void **state)
{
    struct socket_folder f;
    struct err e = {0};
    (void)state;
    assert_int_equal(socket_folder_make(&f, "/nonexistent-folder", &e), -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    socket_folder_release(&f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(goes_with_its_owner), TEST(left_ones_are_removed),
                                       TEST(links_are_not_followed), TEST(without_a_parent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
