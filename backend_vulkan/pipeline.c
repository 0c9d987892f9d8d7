/* Pipelines and their layouts, made when first needed and kept for the device's life. */
#include <string.h>

#include "backend_vulkan/vulkan.h"

static rvit_status make_layout(rvit_vk_device *device, uint32_t n_bindings, uint32_t n_texels, rvit_vk_layout *layout)
{
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

rvit_status rvit_vk_get_layout(rvit_vk_device *device, uint32_t n_bindings, uint32_t n_texels, const rvit_vk_layout **out_layout)
{
    rvit_vk_layout *layout = &device->layouts[n_texels][n_bindings];
    rvit_status status = RVIT_OK;
    pthread_mutex_lock(&device->pipeline_lock);
    if (layout->pipeline == VK_NULL_HANDLE)
        status = make_layout(device, n_bindings, n_texels, layout);
    pthread_mutex_unlock(&device->pipeline_lock);
    *out_layout = layout;
    return status;
}

static rvit_status compile(rvit_vk_device *device, const rvit_vk_layout *layout, uint32_t n_specs, rvit_vk_pipeline *pipeline)
{
    const rvit_vk_shader_code *code = &rvit_vk_shader_codes[pipeline->shader];
    const VkShaderModuleCreateInfo module_create = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = code->size, .pCode = code->words};
    VkShaderModule module;
    RVIT_VK_TRY(device->vk, vkCreateShaderModule, (device->handle, &module_create, NULL, &module));
    VkSpecializationMapEntry entries[RVIT_VK_MAX_SPECS];
    for (uint32_t i = 0; i < n_specs; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
    const VkSpecializationInfo specialization = {n_specs, entries, n_specs * sizeof(uint32_t), pipeline->specs};
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
                                                .layout = layout->pipeline};
    const VkResult result =
        device->vk.vkCreateComputePipelines(device->handle, device->pipeline_cache, 1, &create, NULL, &pipeline->handle);
    device->vk.vkDestroyShaderModule(device->handle, module, NULL);
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkCreateComputePipelines");
    rvit_log(RVIT_LOG_DEBUG, "vulkan: pipeline %s", code->name);
    return RVIT_OK;
}

static rvit_status add_pipeline(rvit_vk_device *device, rvit_vk_shader shader, const uint32_t specs[RVIT_VK_MAX_SPECS], uint32_t n_specs,
                                const rvit_vk_layout *layout, rvit_vk_pipeline **out_pipeline)
{
    rvit_vk_pipeline *pipeline = rvit_alloc_new(&device->base.alloc, sizeof *pipeline);
    if (pipeline == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    pipeline->shader = shader;
    memcpy(pipeline->specs, specs, sizeof pipeline->specs);
    const rvit_status status = compile(device, layout, n_specs, pipeline);
    if (status != RVIT_OK) {
        rvit_alloc_free(&device->base.alloc, pipeline);
        return status;
    }
    pipeline->next = device->pipelines;
    device->pipelines = pipeline;
    *out_pipeline = pipeline;
    return RVIT_OK;
}

rvit_status rvit_vk_get_pipeline(rvit_vk_device *device, rvit_vk_shader shader, const uint32_t specs[RVIT_VK_MAX_SPECS], uint32_t n_specs,
                                 const rvit_vk_layout *layout, VkPipeline *out_pipeline)
{
    rvit_status status = RVIT_OK;
    pthread_mutex_lock(&device->pipeline_lock);
    rvit_vk_pipeline *pipeline = device->pipelines;
    while (pipeline != NULL && (pipeline->shader != shader || memcmp(pipeline->specs, specs, sizeof pipeline->specs) != 0))
        pipeline = pipeline->next;
    if (pipeline == NULL)
        status = add_pipeline(device, shader, specs, n_specs, layout, &pipeline);
    if (status == RVIT_OK)
        *out_pipeline = pipeline->handle;
    pthread_mutex_unlock(&device->pipeline_lock);
    return status;
}

void rvit_vk_pipelines_destroy(rvit_vk_device *device)
{
    while (device->pipelines != NULL) {
        rvit_vk_pipeline *pipeline = device->pipelines;
        device->pipelines = pipeline->next;
        device->vk.vkDestroyPipeline(device->handle, pipeline->handle, NULL);
        rvit_alloc_free(&device->base.alloc, pipeline);
    }
    for (int texels = 0; texels <= RVIT_VK_MAX_TEXELS; texels++)
        for (int n = 0; n <= RVIT_VK_MAX_BINDINGS; n++) {
            device->vk.vkDestroyPipelineLayout(device->handle, device->layouts[texels][n].pipeline, NULL);
            device->vk.vkDestroyDescriptorSetLayout(device->handle, device->layouts[texels][n].set, NULL);
        }
}
