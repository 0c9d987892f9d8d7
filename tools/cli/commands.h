#ifndef RVIT_CLI_COMMANDS_H
#define RVIT_CLI_COMMANDS_H

/* Parses the whole command line and runs its command; returns the exit code. */
int commands_run(int argc, char **argv);

#endif
