#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* More than a command opens at the same time. */
enum { MAX_OPEN = 8 };

/* Names of temporary files. Whoever takes a name out, also a signal handler on any thread, removes the file or has renamed it. */
static _Atomic(char *) temporaries[MAX_OPEN];

static void on_signal(int number)
{
    for (int i = 0; i < MAX_OPEN; i++) {
        char *name = atomic_exchange(&temporaries[i], NULL);
        if (name)
            (void)unlink(name);
    }
    (void)raise(number); /* ends the process when the handler returns, because of SA_RESETHAND */
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
    static bool done;
    struct sigaction old, now = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    if (done)
        return;
    done = true;
    (void)sigemptyset(&now.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) /* keeps the SIG_IGN of nohup and handlers of the caller */
            (void)sigaction(numbers[i], &now, NULL);
    if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        (void)signal(SIGXFSZ, SIG_IGN); /* so that a write beyond RLIMIT_FSIZE fails with a reason */
}

static bool fail(struct output_file *self, const char *reason)
{
    if (!self->reason[0])
        snprintf(self->reason, sizeof self->reason, "%s", reason);
    return false;
}

static bool fail_errno(struct output_file *self)
{
    if (!self->reason[0])
        snprintf(self->reason, sizeof self->reason, "cannot be written: %s", errno ? strerror(errno) : "unknown reason");
    return false;
}

/* Checks the existing file at the path. */
static bool check_older(struct output_file *self)
{
    self->older.st_mode = 0;
    if (lstat(self->path, &self->older) != 0)
        return errno == ENOENT || fail_errno(self);
    const mode_t mode = self->older.st_mode;
    if (S_ISREG(mode))
        return true;
    if (S_ISDIR(mode))
        return fail(self, "is a folder, not a file");
    if (S_ISLNK(mode))
        return fail(self, "is a symbolic link, which is not replaced: name its target or remove it");
    return fail(self, S_ISFIFO(mode) ? "is a pipe, which is not written to: name a regular file"
                                     : "is a device or a socket, which is not written to: name a regular file");
}

/* "FOLDER/.raggedvit-0123456789abcdef". Short, because file systems limit the length of names. */
static char *temporary_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    uint64_t random;
    char *name = malloc(folder + 32);
    if (!name)
        return NULL;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint64_t)getpid() << 32 | (uint64_t)(uintptr_t)name >> 4; /* not unique, but O_EXCL detects that */
    memcpy(name, path, folder);
    snprintf(name + folder, 32, ".raggedvit-%016llx", (unsigned long long)random);
    return name;
}

/* Registers the name before the file is created, so that a signal handler finds it. */
static char *take_slot(struct output_file *self)
{
    char *name = temporary_name(self->path);
    for (int i = 0; i < MAX_OPEN && name; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&temporaries[i], &none, name)) {
            self->slot = i + 1;
            return name;
        }
    }
    free(name);
    return NULL;
}

static void give_slot(struct output_file *self, bool remove)
{
    char *name = self->slot > 0 ? atomic_exchange(&temporaries[self->slot - 1], NULL) : NULL;
    if (name && remove)
        (void)unlink(name);
    free(name);
    self->slot = 0;
}

static bool create(struct output_file *self)
{
    /* Must not make a private file readable. O_EXCL does not follow links. */
    const mode_t mode = self->older.st_mode != 0 ? S_IRUSR | S_IWUSR : 0666;
    const char *name = take_slot(self);
    const int descriptor = name ? open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode) : -1;
    if (name && descriptor < 0) {
        (void)fail_errno(self);
        give_slot(self, false);
        return false;
    }
    self->file = name ? fdopen(descriptor, "wb") : NULL;
    if (!self->file && descriptor >= 0)
        (void)close(descriptor);
    return self->file || fail(self, "cannot be written: out of memory");
}

bool output_file_open(const char *path, struct output_file *out)
{
    *out = (struct output_file){.path = path};
    watch_signals();
    if (check_older(out) && create(out))
        return true;
    output_file_close(out);
    return false;
}

bool output_file_write(struct output_file *self, const void *data, size_t size)
{
    errno = 0;
    if (!self->reason[0] && fwrite(data, 1, size, self->file) != size)
        (void)fail_errno(self);
    return !self->reason[0];
}

bool output_file_rewind(struct output_file *self)
{
    errno = 0;
    if (!self->reason[0] && fseeko(self->file, 0, SEEK_SET) != 0)
        (void)fail_errno(self);
    return !self->reason[0];
}

bool output_file_finish(struct output_file *self)
{
    if (self->reason[0])
        return false;
    if (!self->file)
        return true;
    const int descriptor = fileno(self->file);
    bool good = fflush(self->file) == 0;
    if (good && self->older.st_mode != 0) {
        /* If the owner cannot be restored, the user owns the file. If the group cannot, it gets no access. */
        const bool same_group = fchown(descriptor, (uid_t)-1, self->older.st_gid) == 0;
        const bool same_owner = fchown(descriptor, self->older.st_uid, (gid_t)-1) == 0;
        (void)same_owner;
        good = fchmod(descriptor, self->older.st_mode & (same_group ? 0777 : 0707)) == 0;
    }
    good = good && fsync(descriptor) == 0; /* network file systems report a full disk only here */
    if (!good)
        (void)fail_errno(self);
    if (fclose(self->file) != 0)
        (void)fail_errno(self);
    self->file = NULL;
    return !self->reason[0];
}

bool output_file_commit(struct output_file *self)
{
    if (!output_file_finish(self))
        return false;
    if (self->slot == 0)
        return true;
    char *name = atomic_load(&temporaries[self->slot - 1]);
    if (!name || rename(name, self->path) != 0)
        return fail_errno(self);
    give_slot(self, false);
    return true;
}

void output_file_close(struct output_file *self)
{
    if (self->file)
        (void)fclose(self->file);
    self->file = NULL;
    give_slot(self, true);
}
