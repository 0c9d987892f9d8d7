/* The command line tool. Plain C that uses only the public API; commands.c has its commands, options.c their options. */
#include <fcntl.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"

/* Opens closed standard streams, so that no file opened later gets their descriptor and receives printed output. Writing to such a stream
   fails and is reported. */
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
    return finish_output(commands_run(argc, argv));
}
