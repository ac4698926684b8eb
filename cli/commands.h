#pragma once

/*
 * One function per subcommand, in cli/cmd_<name>.c, one row each in the table of cli/main.c.
 * argv[0] is the subcommand's name (or the drop-in name it was called by). The value is the exit
 * status: 0 done, 1 a check did not hold, 2 usage, 3 bad input, 4 output, 5 connection.
 */

int cmd_baseline(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_capture_drop_in(int argc, char **argv); /* called as tracy-capture and the like */
/* The same for the daemon, which watches it over `channel`: the session's end
 * (server/capture/monitor.h).
 */
int cmd_capture_session(int argc, char **argv, int channel, int sampler);
int cmd_ctl(int argc, char **argv);
int cmd_daemon(int argc, char **argv);
int cmd_daemon_drop_in(int argc, char **argv); /* called as tracy-capture-daemon */
int cmd_diff(int argc, char **argv);
int cmd_diff_of_run(int argc, char **argv); /* as `run --repeat` reports: JUnit's suite is run's */
int cmd_dump(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_import_drop_in(int argc, char **argv); /* called as tracy-import-chrome */
int cmd_info(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_merge_drop_in(int argc, char **argv); /* called as tracy-merge */
int cmd_recover(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_csvexport(int argc, char **argv);
int cmd_csvexport_drop_in(int argc, char **argv);
int cmd_annotate(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_tree(int argc, char **argv);
int cmd_find(int argc, char **argv);
int cmd_map(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_modules(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_symbols(int argc, char **argv);
int cmd_update(int argc, char **argv);
int cmd_update_drop_in(int argc, char **argv); /* called as tracy-update and the like */
int cmd_verify(int argc, char **argv);
int cmd_view(int argc, char **argv);
