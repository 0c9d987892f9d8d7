/* The command line tool. Plain C on the public API only; see options.c for what it takes. */
#include <fcntl.h>
#include <unistd.h>

#include "options.h"

/* A file that is opened later must not take the place of a standard stream that is closed, and with it what is printed. Writing to what
   takes the place here fails, and is reported. */
static void occupy_standard_streams(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO)
        close(descriptor);
}

int main(int argc, char **argv)
{
    occupy_standard_streams();
    rvit_log_set(rvit_log_stderr, NULL);
    return finish_output(options_run(argc, argv));
}
