/* A plugin that never destroys its device. It is linked once with the shared library and once with the static one. */
#include <raggedvit/raggedvit.h>

__attribute__((visibility("default"))) int plugin_start(void);

int plugin_start(void)
{
    rvit_device *device;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = 4;
    return rvit_device_create(&desc, &device);
}
