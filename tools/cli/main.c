/* The command line tool. Plain C on the public API only; see options.c for what it takes. */
#include "options.h"

int main(int argc, char **argv)
{
    rvit_log_set(rvit_log_stderr, NULL);
    return options_run(argc, argv);
}
