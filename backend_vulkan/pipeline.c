/* Pipelines and their layouts, created on first use and kept as long as the device. The pipelines of a program are compiled in parallel. */
#include <string.h>

#include "backend_vulkan/vulkan.h"
#include "core/base/system.h"
#include "core/base/os.h"

#define MAX_THREADS 3 /* besides the caller's thread; an H200's driver is slower with more */

uint32_t rvit_vk_max_bindings(const rvit_vk_device *device)
{
    const uint32_t supported = device->physical.limits.maxPerStageDescriptorStorageBuffers;
    return supported < RVIT_VK_MAX_BINDINGS ? supported : RVIT_VK_MAX_BINDINGS;
}

/* Shaders with the same number of texel buffers share a layout: on an H200 the first layout takes six milliseconds, each further one
   two. */
static rvit_status make_layout(rvit_vk_device *device, uint32_t n_texels, rvit_vk_layout *layout)
{
    const uint32_t n_bindings = rvit_vk_max_bindings(device);
    VkDescriptorSetLayoutBinding bindings[RVIT_VK_MAX_BINDINGS];
    for (uint32_t i = 0; i < n_bindings; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = i < n_texels ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                                                                    : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                     .descriptorCount = 1,
                                                     .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n_bindings, .pBindings = bindings};
    if (layout->set == VK_NULL_HANDLE)
        RVIT_VK_TRY(device->vk, vkCreateDescriptorSetLayout, (device->handle, &set, NULL, &layout->set));
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, RVIT_VK_PUSH_SIZE};
    const VkPipelineLayoutCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                 .setLayoutCount = 1,
                                                 .pSetLayouts = &layout->set,
                                                 .pushConstantRangeCount = 1,
                                                 .pPushConstantRanges = &range};
    RVIT_VK_TRY(device->vk, vkCreatePipelineLayout, (device->handle, &pipeline, NULL, &layout->pipeline));
    return RVIT_OK;
}

rvit_status rvit_vk_get_layout(rvit_vk_device *device, uint32_t n_texels, const rvit_vk_layout **out_layout)
{
    rvit_vk_layout *layout = &device->layouts[n_texels];
    rvit_status status = RVIT_OK;
    rvit_mutex_lock(&device->pipeline_lock);
    if (layout->pipeline == VK_NULL_HANDLE)
        status = make_layout(device, n_texels, layout);
    rvit_mutex_unlock(&device->pipeline_lock);
    *out_layout = layout;
    return status;
}

/* The result of a compilation; call: the call that failed. */
typedef struct compilation {
    VkResult result;
    const char *call;
} compilation;

static compilation compile(const rvit_vk_device *device, rvit_vk_pipeline *pipeline)
{
    const rvit_vk_shader_code *code = &rvit_vk_shader_codes[pipeline->shader];
    const VkShaderModuleCreateInfo module_create = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = code->size, .pCode = code->words};
    VkShaderModule module;
    VkResult result = device->vk.vkCreateShaderModule(device->handle, &module_create, NULL, &module);
    if (result != VK_SUCCESS)
        return (compilation){result, "vkCreateShaderModule"};
    VkSpecializationMapEntry entries[RVIT_VK_MAX_SPECS];
    for (uint32_t i = 0; i < RVIT_VK_MAX_SPECS; i++) /* a shader ignores those that it does not have */
        entries[i] = (VkSpecializationMapEntry){i == RVIT_VK_SPEC_BF16 ? RVIT_SPEC_BF16 : i, i * (uint32_t)sizeof *pipeline->specs,
                                                sizeof *pipeline->specs};
    const VkSpecializationInfo specialization = {RVIT_VK_MAX_SPECS, entries, sizeof pipeline->specs, pipeline->specs};
    const int matrix = rvit_vk_is_matrix_shader(pipeline->shader);
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = device->physical.matrix.subgroup};
    const VkComputePipelineCreateInfo create = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                          .pNext = matrix ? &subgroup : NULL,
                                                          .flags = matrix ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                                                          .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                          .module = module,
                                                          .pName = "main",
                                                          .pSpecializationInfo = &specialization},
                                                .layout = pipeline->layout->pipeline};
    RVIT_SIGNALS_BLOCKED;
    result = device->vk.vkCreateComputePipelines(device->handle, device->pipeline_cache, 1, &create, NULL, &pipeline->handle);
    device->vk.vkDestroyShaderModule(device->handle, module, NULL);
    return (compilation){result, "vkCreateComputePipelines"};
}

static rvit_vk_pipeline *find(rvit_vk_pipeline *list, const rvit_vk_pipeline *wanted)
{
    while (list != NULL && (list->shader != wanted->shader || memcmp(list->specs, wanted->specs, sizeof list->specs) != 0))
        list = list->next;
    return list;
}

static rvit_status new_pipeline(rvit_vk_device *device, const rvit_vk_pipeline *wanted, rvit_vk_pipeline **out_pipeline)
{
    rvit_vk_pipeline *pipeline = rvit_alloc_new(&device->base.alloc, sizeof *pipeline);
    RVIT_TRY_MEMORY(pipeline);
    *pipeline = *wanted;
    *out_pipeline = pipeline;
    return RVIT_OK;
}

static void free_pipeline(rvit_vk_device *device, rvit_vk_pipeline *pipeline)
{
    device->vk.vkDestroyPipeline(device->handle, pipeline->handle, NULL);
    rvit_alloc_free(&device->base.alloc, pipeline);
}

static void push(rvit_vk_pipeline **list, rvit_vk_pipeline *pipeline)
{
    pipeline->next = *list;
    *list = pipeline;
}

static rvit_vk_pipeline *pop(rvit_vk_pipeline **list)
{
    rvit_vk_pipeline *pipeline = *list;
    *list = pipeline->next;
    return pipeline;
}

static void log_pipeline(const rvit_vk_pipeline *pipeline)
{
    rvit_log(RVIT_LOG_DEBUG, "vulkan: pipeline %s%s", rvit_vk_shader_codes[pipeline->shader].name,
             pipeline->specs[RVIT_VK_SPEC_BF16] != 0 ? " for bf16" : "");
}

static rvit_status add_pipeline(rvit_vk_device *device, const rvit_vk_pipeline *wanted, rvit_vk_pipeline **out_pipeline)
{
    RVIT_TRY(new_pipeline(device, wanted, out_pipeline));
    const compilation done = compile(device, *out_pipeline);
    if (done.result != VK_SUCCESS) {
        rvit_alloc_free(&device->base.alloc, *out_pipeline);
        return rvit_vk_fail(done.result, done.call);
    }
    log_pipeline(*out_pipeline);
    push(&device->pipelines, *out_pipeline);
    return RVIT_OK;
}

rvit_status rvit_vk_get_pipeline(rvit_vk_device *device, const rvit_vk_pipeline *wanted, VkPipeline *out_pipeline)
{
    rvit_status status = RVIT_OK;
    rvit_mutex_lock(&device->pipeline_lock);
    rvit_vk_pipeline *pipeline = find(device->pipelines, wanted);
    if (pipeline == NULL)
        status = add_pipeline(device, wanted, &pipeline);
    if (status == RVIT_OK)
        *out_pipeline = pipeline->handle;
    rvit_mutex_unlock(&device->pipeline_lock);
    return status;
}

rvit_status rvit_vk_want_pipeline(rvit_vk_recorder *dry, const rvit_vk_pipeline *wanted)
{
    rvit_vk_device *device = dry->device;
    rvit_mutex_lock(&device->pipeline_lock);
    const int is_there = find(device->pipelines, wanted) != NULL;
    rvit_mutex_unlock(&device->pipeline_lock);
    if (is_there || find(dry->wanted, wanted) != NULL)
        return RVIT_OK;
    rvit_vk_pipeline *pipeline;
    RVIT_TRY(new_pipeline(device, wanted, &pipeline));
    push(&dry->wanted, pipeline);
    return RVIT_OK;
}

/* Pipelines to be compiled by several threads. */
typedef struct batch {
    const rvit_vk_device *device;
    rvit_mutex lock;        /* guards the fields below */
    rvit_vk_pipeline *next; /* first pipeline that no thread has taken */
    compilation failure;    /* the first failure; result VK_SUCCESS: none */
} batch;

static void *compile_batch(void *argument)
{
    batch *b = argument;
    rvit_mutex_lock(&b->lock);
    while (b->next != NULL && b->failure.result == VK_SUCCESS) {
        rvit_vk_pipeline *pipeline = b->next;
        b->next = pipeline->next;
        rvit_mutex_unlock(&b->lock);
        const compilation done = compile(b->device, pipeline);
        rvit_mutex_lock(&b->lock);
        if (done.result != VK_SUCCESS && b->failure.result == VK_SUCCESS)
            b->failure = done;
    }
    rvit_mutex_unlock(&b->lock);
    return NULL;
}

/* The caller compiles too; if no thread can be created it compiles everything. */
static compilation compile_all(const rvit_vk_device *device, rvit_vk_pipeline *list)
{
    batch b = {.device = device, .next = list};
    rvit_mutex_init(&b.lock);
    int max_threads = rvit_online_processors() - 1;
    rvit_thread threads[MAX_THREADS];
    int n_threads = 0;
    for (list = list->next; list != NULL && n_threads < MAX_THREADS && n_threads < max_threads; list = list->next)
        if (rvit_thread_start(&threads[n_threads], compile_batch, &b) == 0)
            n_threads++;
        else
            max_threads = 0;
    (void)compile_batch(&b);
    for (int i = 0; i < n_threads; i++)
        rvit_thread_join(threads[i]);
    rvit_mutex_destroy(&b.lock);
    return b.failure;
}

static void store_pipeline(rvit_vk_device *device, rvit_vk_pipeline *pipeline)
{
    log_pipeline(pipeline);
    rvit_mutex_lock(&device->pipeline_lock);
    const int is_there = find(device->pipelines, pipeline) != NULL; /* another thread may have added it in between */
    if (!is_there)
        push(&device->pipelines, pipeline);
    rvit_mutex_unlock(&device->pipeline_lock);
    if (is_there)
        free_pipeline(device, pipeline);
}

rvit_status rvit_vk_compile_wanted(rvit_vk_recorder *dry)
{
    if (dry->wanted == NULL)
        return RVIT_OK;
    const compilation done = compile_all(dry->device, dry->wanted);
    if (done.result != VK_SUCCESS) {
        rvit_vk_drop_wanted(dry);
        return rvit_vk_fail(done.result, done.call);
    }
    while (dry->wanted != NULL)
        store_pipeline(dry->device, pop(&dry->wanted));
    return RVIT_OK;
}

void rvit_vk_drop_wanted(rvit_vk_recorder *dry)
{
    while (dry->wanted != NULL)
        free_pipeline(dry->device, pop(&dry->wanted));
}

void rvit_vk_pipelines_destroy(rvit_vk_device *device)
{
    while (device->pipelines != NULL)
        free_pipeline(device, pop(&device->pipelines));
    for (int texels = 0; texels <= RVIT_VK_MAX_TEXELS; texels++) {
        device->vk.vkDestroyPipelineLayout(device->handle, device->layouts[texels].pipeline, NULL);
        device->vk.vkDestroyDescriptorSetLayout(device->handle, device->layouts[texels].set, NULL);
    }
}
