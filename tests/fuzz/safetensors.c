/* Fuzzes .safetensors files: reads the tensors and opens a checkpoint. The first byte selects how the rest becomes a file. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/file/safetensors.h"

enum { MAX_READ = 1 << 16 };

static void read_all(const char *path)
{
    static rvit_alloc alloc;
    rvit_alloc_init(&alloc, &fuzz_allocator);
    rvit_safetensors *file = NULL;
    if (expect_status_of(rvit_safetensors_open(path, &alloc, &file)) != RVIT_OK)
        return;
    static uint8_t bytes[MAX_READ];
    const int32_t n = rvit_safetensors_count(file);
    for (int32_t i = 0; i < n; i++) {
        const rvit_file_tensor *tensor = rvit_safetensors_tensor(file, i);
        if (rvit_safetensors_find(file, tensor->name) != i || rvit_safetensors_find_prefix(file, tensor->name) < 0)
            fuzz_fail("a tensor is not found by its name");
        /* Open checks that the data is there. */
        const int64_t size = tensor->size < MAX_READ ? tensor->size : MAX_READ;
        if (rvit_safetensors_read(file, i, tensor->size - size, size, bytes) != RVIT_OK)
            fuzz_fail("a tensor cannot be read");
    }
    (void)rvit_safetensors_find(file, "cls_token");
    (void)rvit_safetensors_metadata(file, "format");
    rvit_safetensors_close(file);
}

static void open_checkpoint(const char *path, uint8_t options)
{
    static const int32_t sizes[] = {0, 32, 48, 224};
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.allocator = &fuzz_allocator;
    desc.lenient = options & 1;
    desc.image_size = sizes[options >> 1 & 3];
    desc.resample = (rvit_resample)(options >> 3 & 1);
    rvit_checkpoint *checkpoint = NULL;
    if (expect_status_of(rvit_checkpoint_open(path, &desc, &checkpoint)) != RVIT_OK)
        return;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    (void)expect_status_of(rvit_checkpoint_get_model_info(checkpoint, &info));
    (void)expect_status_of(rvit_checkpoint_get_info(checkpoint, &files));
    (void)expect_status_of(rvit_checkpoint_get_recipe(checkpoint, &recipe));
    static rvit_device *device;
    rvit_device_desc device_desc = RVIT_DEVICE_DESC_INIT;
    device_desc.backend = RVIT_BACKEND_CPU;
    device_desc.n_threads = 1;
    device_desc.allocator = &fuzz_allocator;
    if (device == NULL && rvit_device_create(&device_desc, &device) != RVIT_OK)
        fuzz_fail(rvit_status_detail());
    rvit_model *model = NULL;
    if (files.n_parameters < 1 << 20)
        (void)expect_status_of(rvit_model_create(device, checkpoint, NULL, &model));
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const uint8_t options = data[0];
    const char *path;
    if (options & 0x80) {
        path = memory_file(data + 1, size - 1, 0);
    } else {
        /* The input is only the header: its length goes before it, and zeros after it as data, 2^n or the number in two bytes. */
        const size_t header = size - 3;
        const int64_t zeros = options & 0x40 ? (int64_t)1 << (data[1] % 26) : data[1] << 8 | data[2];
        uint8_t *whole = malloc(header + 8);
        if (whole == NULL)
            return 0;
        for (int i = 0; i < 8; i++)
            whole[i] = (uint8_t)((uint64_t)header >> 8 * i);
        memcpy(whole + 8, data + 3, header);
        path = memory_file(whole, header + 8, (int64_t)header + 8 + zeros);
        free(whole);
    }
    read_all(path);
    open_checkpoint(path, options);
    return 0;
}
