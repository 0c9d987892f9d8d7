#include "output_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* More than a command opens at the same time. */
enum { MAX_OPEN = 8 };

/* Names of temporary files. Whoever takes a name out, also a signal handler on any thread, removes the file or has renamed it. */
static _Atomic(char *) temporaries[MAX_OPEN];

static void remove_temporaries(void)
{
    for (int i = 0; i < MAX_OPEN; i++) {
        char *name = atomic_exchange(&temporaries[i], NULL);
        if (name)
            rvit_file_remove(name);
    }
}

static bool fail(struct output_file *self, const char *reason)
{
    if (!self->reason[0])
        snprintf(self->reason, sizeof self->reason, "%s", reason);
    return false;
}

static bool fail_because(struct output_file *self, const char *text)
{
    if (!self->reason[0])
        snprintf(self->reason, sizeof self->reason, "cannot be written: %s", text);
    return false;
}

/* Of a function of the C library. */
static bool fail_errno(struct output_file *self)
{
    return fail_because(self, errno ? strerror(errno) : "unknown reason");
}

/* number: of a function of os_program.h; 0: no error. */
static bool check(struct output_file *self, int number)
{
    char text[160];
    return number == 0 || fail_because(self, rvit_error_text(number, text, sizeof text));
}

/* Checks the existing file at the path. */
static bool check_older(struct output_file *self)
{
    int number;
    const rvit_os_error error = rvit_os_look(self->path, 0, &self->older, &number);
    self->replaces = error == RVIT_OS_OK;
    if (!self->replaces)
        return error == RVIT_OS_NOT_FOUND || check(self, number);
    switch (self->older.kind) {
    case RVIT_OS_REGULAR:
        return true;
    case RVIT_OS_FOLDER:
        return fail(self, "is a folder, not a file");
    case RVIT_OS_LINK:
        return fail(self, "is a symbolic link, which is not replaced: name its target or remove it");
    case RVIT_OS_PIPE:
        return fail(self, "is a pipe, which is not written to: name a regular file");
    default:
        return fail(self, "is a device or a socket, which is not written to: name a regular file");
    }
}

/* "FOLDER/.raggedvit-0123456789abcdef". Short, because file systems limit the length of names. */
static char *temporary_name(const char *path)
{
    const size_t folder = (size_t)(rvit_os_name_of(path) - path);
    char *name = malloc(folder + 32);
    if (!name)
        return NULL;
    memcpy(name, path, folder);
    snprintf(name + folder, 32, ".raggedvit-%016llx", (unsigned long long)rvit_random_number());
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
        rvit_file_remove(name);
    free(name);
    self->slot = 0;
}

static bool create(struct output_file *self)
{
    int number;
    const char *name = take_slot(self);
    if (!name)
        return fail(self, "cannot be written: out of memory");
    self->file = rvit_file_create(name, self->replaces, &number); /* must not make a private file readable */
    if (self->file)
        return true;
    (void)check(self, number);
    give_slot(self, false);
    return false;
}

bool output_file_open(const char *path, struct output_file *out)
{
    static bool watches;
    *out = (struct output_file){.path = path};
    if (!watches)
        rvit_termination_watch(remove_temporaries);
    watches = true;
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
    if (!self->reason[0] && fseek(self->file, 0, SEEK_SET) != 0)
        (void)fail_errno(self);
    return !self->reason[0];
}

bool output_file_finish(struct output_file *self)
{
    if (self->reason[0])
        return false;
    if (!self->file)
        return true;
    (void)check(self, rvit_file_finish(self->file, self->replaces ? &self->older : NULL));
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
    if (!name || !check(self, rvit_file_rename(name, self->path)))
        return false;
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
