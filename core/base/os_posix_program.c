#include "core/base/os_program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/random.h>
#endif

int rvit_program_begin(int *argc, char ***argv)
{
    int descriptor;
    (void)argc;
    (void)argv;
    do
        descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO)
        close(descriptor);
    return 0;
}

const char *rvit_error_text(int number, char *text, size_t size)
{
    (void)text;
    (void)size;
    return number != 0 ? strerror(number) : "unknown reason";
}

int rvit_is_terminal(FILE *stream)
{
    return isatty(fileno(stream));
}

/* Standard input */

struct rvit_input {
    int stop_pipe[2]; /* closing the write end wakes the reader */
};

rvit_input *rvit_input_open(int *out_number)
{
    rvit_input *input = malloc(sizeof *input);
    if (input != NULL && pipe(input->stop_pipe) == 0) {
        *out_number = 0;
        return input;
    }
    *out_number = errno;
    free(input);
    return NULL;
}

void rvit_input_stop(rvit_input *input)
{
    if (input->stop_pipe[1] >= 0)
        close(input->stop_pipe[1]);
    input->stop_pipe[1] = -1;
}

void rvit_input_close(rvit_input *input)
{
    if (input == NULL)
        return;
    rvit_input_stop(input);
    close(input->stop_pipe[0]);
    free(input);
}

int64_t rvit_input_read(rvit_input *input, void *out_bytes, size_t size, int *out_number)
{
    struct pollfd files[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = input->stop_pipe[0], .events = POLLIN}};
    for (;;) {
        const int n_ready = poll(files, 2, -1);
        if (n_ready >= 0 && files[1].revents)
            return RVIT_INPUT_STOPPED;
        const ssize_t n = n_ready < 0 ? -1 : read(STDIN_FILENO, out_bytes, size);
        if (n >= 0)
            return n;
        *out_number = errno;
        if (errno != EINTR && errno != EAGAIN)
            return RVIT_INPUT_FAILED;
    }
}

/* Folders and files */

int rvit_folder_read(const char *folder, int (*add)(void *user, const char *name), void *user, int *out_number)
{
    DIR *directory = opendir(folder);
    int result = 0;
    *out_number = directory == NULL ? errno : 0;
    for (struct dirent *entry; directory != NULL && result == 0 && (entry = readdir(directory)) != NULL;)
        result = add(user, entry->d_name);
    if (directory != NULL)
        closedir(directory);
    return result;
}

int rvit_path_is_absolute(const char *path)
{
    return path[0] == '/';
}

FILE *rvit_file_read_open(const char *path, int *out_number)
{
    FILE *file = fopen(path, "rb");
    *out_number = file == NULL ? errno : 0;
    return file;
}

FILE *rvit_file_create(const char *path, int is_private, int *out_number)
{
    /* O_EXCL does not follow links. */
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, is_private ? S_IRUSR | S_IWUSR : 0666);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    *out_number = file == NULL ? errno : 0;
    if (file == NULL && descriptor >= 0) {
        (void)close(descriptor);
        (void)unlink(path);
    }
    return file;
}

int rvit_file_finish(FILE *file, const rvit_os_file_info *older)
{
    const int descriptor = fileno(file);
    errno = 0;
    int good = fflush(file) == 0;
    if (good && older != NULL) {
        /* If the owner cannot be restored, the user owns the file. If the group cannot, it gets no access. */
        const int same_group = fchown(descriptor, (uid_t)-1, (gid_t)older->group) == 0;
        const int same_owner = fchown(descriptor, (uid_t)older->owner, (gid_t)-1) == 0;
        (void)same_owner;
        good = fchmod(descriptor, (mode_t)older->mode & (same_group ? 0777 : 0707)) == 0;
    }
    return good && fsync(descriptor) == 0 ? 0 : errno; /* network file systems report a full disk only here */
}

int rvit_file_rename(const char *from, const char *to)
{
    return rename(from, to) == 0 ? 0 : errno;
}

void rvit_file_remove(const char *path)
{
    (void)unlink(path);
}

static void (*terminate)(void);

static void on_signal(int number)
{
    terminate();
    (void)raise(number); /* ends the process when the handler returns, because of SA_RESETHAND */
}

void rvit_termination_watch(void (*handler)(void))
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
    struct sigaction old, now = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    terminate = handler;
    (void)sigemptyset(&now.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* keeps the SIG_IGN of nohup and handlers of the caller */
            (void)sigaction(numbers[i], &now, NULL);
    if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        (void)signal(SIGXFSZ, SIG_IGN); /* so that a write beyond RLIMIT_FSIZE fails with a reason */
}

void rvit_crash_watch(void (*handler)(int number))
{
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)sigaction(numbers[i], &(struct sigaction){.sa_handler = handler, .sa_flags = (int)SA_RESETHAND}, NULL);
}

uint64_t rvit_random_number(void)
{
#if defined(__linux__)
    uint64_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) == (ssize_t)sizeof random)
        return random;
#endif
    struct timespec now; /* not unique, but O_EXCL detects that */
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)getpid() << 32 ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
}

/* Linux: in memory. Elsewhere: without a name from the start. */
FILE *rvit_temporary_file(char *path, size_t size, int *out_number)
{
#if defined(__linux__)
    const char *folder = "/proc/self/fd";
    const int descriptor = memfd_create("raggedvit", MFD_CLOEXEC);
#else
    const char *folder = "/dev/fd", *where = getenv("TMPDIR");
    (void)snprintf(path, size, "%s/raggedvit-XXXXXX", where != NULL ? where : "/tmp");
    const int descriptor = mkstemp(path);
    if (descriptor >= 0)
        (void)unlink(path);
#endif
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb+") : NULL;
    *out_number = file == NULL ? errno : 0;
    if (file == NULL && descriptor >= 0)
        (void)close(descriptor);
    (void)snprintf(path, size, "%s/%d", folder, descriptor);
    return file;
}

void rvit_os_version(char *text, size_t size)
{
    struct utsname name;
    text[0] = 0;
    if (uname(&name) < 0)
        return;
    /* A suffix may say where a kernel was built. WSL's says that the GPU is behind another system's driver. */
    const int n = (int)strspn(name.release, "0123456789.");
    snprintf(text, size, "%s %.*s%s", name.sysname, n, name.release, strstr(name.release, "WSL") ? " (WSL)" : "");
}

void rvit_os_name(char *text, size_t size)
{
    char line[256];
    FILE *file = fopen("/etc/os-release", "r");
    text[0] = '\0';
    while (file != NULL && text[0] == '\0' && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "PRETTY_NAME=", 12) == 0) {
            const char *name = line + 12 + (line[12] == '"');
            (void)snprintf(text, size, "%.*s", (int)strcspn(name, "\"\n"), name);
        }
    if (file != NULL)
        (void)fclose(file);
    if (text[0] == '\0')
        rvit_os_version(text, size);
}
