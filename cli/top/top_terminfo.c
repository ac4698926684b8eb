#include "cli/top/top_terminfo.h"

#include <curses.h>
#include <term.h>

bool terminfo_knows(int fd)
{
    int status;
    if (setupterm(NULL, fd, &status) != OK)
        return false;
    del_curterm(cur_term);
    return true;
}
