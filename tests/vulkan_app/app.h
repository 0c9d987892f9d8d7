/* An application with its own Vulkan code, which lets the library use its device. It has its own volk with global vk* pointers. */
#ifndef RVIT_TESTS_VULKAN_APP_H
#define RVIT_TESTS_VULKAN_APP_H

#include "harness.h"

#include <pthread.h>

#include <volk.h>

#include <raggedvit/vulkan.h>

extern const suite app_device_suite, app_record_suite, app_buffer_suite, app_share_suite;

#define APP_EXTENSIONS 3

typedef struct app {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkDevice device;
    struct VolkDeviceTable vk;
    uint32_t family;
    VkQueue queue;
    VkCommandPool pool;
    /* The create info of the device; desc points to it. */
    VkPhysicalDeviceVulkan12Features vulkan12;
    struct {
        VkStructureType type;
        void *next;
        VkBool32 matrix, robust;
    } matrix;
    VkPhysicalDeviceSubgroupSizeControlFeatures size;
    const char *extensions[APP_EXTENSIONS];
    uint32_t n_extensions;
    rvit_vulkan_device_desc desc;
    /* The queue's lock. */
    pthread_mutex_t lock;
    int is_locked, n_locks;
    rvit_device *rvit; /* on this device */
} app;

/* Creates a device with the driver's features and extensions for sharing and, if the run uses it, the matrix tier. bare: without any
   feature or extension. */
void app_open(app *a, int bare);
void app_close(app *a);
int app_has_extension(const app *a, const char *name);
/* rvit_vulkan_device_create with the tier of this run and without the self-test. */
rvit_status app_create(const app *a, rvit_device **out_device);

/* A VkBuffer in mapped memory. */
typedef struct app_buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    void *host;
    int64_t size;
    VkBufferUsageFlags usage;
} app_buffer;
app_buffer app_buffer_open(const app *a, int64_t size, VkBufferUsageFlags usage);
void app_buffer_close(const app *a, app_buffer *buffer);
rvit_memory_desc app_buffer_desc(const app_buffer *buffer);

/* A command buffer in the recording state. */
VkCommandBuffer app_begin(const app *a);
/* Ends it, with a barrier that makes results visible to the host. */
void app_end(const app *a, VkCommandBuffer commands);
/* Submits it and waits. */
void app_run(app *a, VkCommandBuffer commands);

/* The application's device serves as the harness's device while a test runs. */
extern app *APP;
int app_setup(void **state);
int app_teardown(void **state);
#define APP_TEST(function) TEST_OF(function, app_setup, app_teardown)

#endif
