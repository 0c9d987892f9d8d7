/* Fuzzes the index file of sharded checkpoints. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file/tensor_set.h"

static char folder[64];

static void write_at(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        fuzz_fail("cannot write to the folder");
    close(fd);
}

static void write_shard(const char *name, const char *header, size_t zeros)
{
    uint8_t whole[512] = {0};
    const size_t length = strlen(header);
    whole[0] = (uint8_t)length;
    memcpy(whole + 8, header, length);
    write_at(name, whole, 8 + length + zeros);
}

static void end_folder(void)
{
    static const char *const names[] = {"a.safetensors", "b.safetensors", "m.json"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void begin_folder(void)
{
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/rvit-fuzz-XXXXXX" : "/tmp/rvit-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL)
        fuzz_fail("cannot create a folder for the files");
    (void)atexit(end_folder);
    write_shard("a.safetensors",
                "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                "\"y\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[8,16]}}",
                16);
    write_shard("b.safetensors", "{\"z\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]}}", 2);
}

static void read_set(const char *path, rvit_alloc *alloc)
{
    rvit_tensor_set *set = NULL;
    if (expect_status_of(rvit_tensor_set_open(path, alloc, &set)) != RVIT_OK)
        return;
    const int32_t n = rvit_tensor_set_count(set);
    for (int32_t i = 0; i < n; i++) {
        uint8_t bytes[16];
        const rvit_file_tensor *tensor = rvit_tensor_set_tensor(set, i);
        if (rvit_tensor_set_find(set, tensor->name) != i)
            fuzz_fail("a tensor is not found by its name");
        if (rvit_tensor_set_read(set, i, 0, tensor->size, bytes) != RVIT_OK)
            fuzz_fail("a tensor cannot be read");
    }
    (void)rvit_tensor_set_metadata(set, "format");
    rvit_tensor_set_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (folder[0] == '\0')
        begin_folder();
    static rvit_alloc alloc;
    rvit_alloc_init(&alloc, &fuzz_allocator);
    char path[128];
    snprintf(path, sizeof path, "%s/m.json", folder);
    write_at("m.json", data, size);
    read_set(path, &alloc);
    return 0;
}
