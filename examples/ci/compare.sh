#!/bin/sh
# Records a program five times and compares the runs with the newest ones of the main branch.
# usage: compare.sh FOLDER PROGRAM [ARGUMENTS]
#
# FOLDER is kept from job to job (a cache), one for each program: FOLDER/main has the figures of runs of
# the main branch.
# On the main branch (BRANCH=main) the runs are added to it; elsewhere the job fails if the peak rose
# by more than 5 % beyond the noise, or if the program leaks more than before. Writes memory.md, a
# comment for the change, and memory.xml, which CI systems show as tests.
set -eu

folder=$1
shift

# comment TEXT: what memory.md says if it is not replaced
comment() {
    printf '<!-- tidemark -->\n%s\n' "$1" >memory.md
}

rm -f memory.xml
comment "The memory was not compared: see the job's log."
tidemark run --repeat 5 -f -o run.tracy --report none -- "$@"
if [ "${BRANCH:-}" = main ]; then
    exec tidemark baseline "$folder" run.?.tracy --branch main --keep 20
fi
if [ ! -d "$folder/main" ]; then
    comment "There are no runs of the main branch to compare with yet."
    exit 0
fi
set -- --fail-if 'peak>+5%' --fail-if 'leaked>+0' -f "$folder/main" -- run.?.tracy
status=0
tidemark diff --format markdown -o memory.md "$@" || status=$?
tidemark diff --format junit -o memory.xml "$@" || status=$?
exit $status
