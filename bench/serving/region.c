#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

region region_create(const char *role, size_t size)
{
    region self = {.size = size > 0 ? size : 1};
    snprintf(self.name, sizeof self.name, "raggedvit_%s_%d", role, (int)getpid());
    snprintf(self.key, sizeof self.key, "/%s", self.name);
    const int file = shm_open(self.key, O_RDWR | O_CREAT | O_EXCL, 0600);
    int code = file < 0 ? errno : posix_fallocate(file, 0, (off_t)self.size);
    if (code == 0) {
        self.memory = mmap(NULL, self.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        code = self.memory == MAP_FAILED ? errno : 0;
    }
    if (file >= 0)
        close(file);
    if (code != 0) {
        fprintf(stderr, "bench: %zu bytes of shared memory: %s\n", self.size, strerror(code));
        if (file >= 0)
            region_unlink(&self);
        exit(1);
    }
    return self;
}

void region_unlink(region *self)
{
    if (self->key[0] != '\0')
        shm_unlink(self->key);
    self->key[0] = '\0';
}

void region_destroy(region *self)
{
    region_unlink(self);
    if (self->memory != NULL)
        munmap(self->memory, self->size);
    self->memory = NULL;
}
