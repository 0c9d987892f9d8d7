/* The matrix tier: checks that a device has what its shaders need. */
#include "backend_vulkan/cooperative_matrix.h"

#define MAX_SHAPES 64
#define VENDOR_INTEL 0x8086u
#define VENDOR_NVIDIA 0x10deu
#define USUAL_PROCESSORS 48

/* The shaders access units of eight elements and distribute rows over lanes: only these sizes work. */
static int side_fits(uint32_t side)
{
    return side == 8 || side == 16 || side == 32;
}

static int shape_fits(const rvit_vk_matrix_shape *shape, rvit_vk_component element, rvit_vk_component sums)
{
    return shape->AType == element && shape->BType == element && shape->CType == sums && shape->ResultType == sums &&
           !shape->saturatingAccumulation && shape->scope == RVIT_VK_SCOPE_SUBGROUP && side_fits(shape->MSize) && side_fits(shape->NSize) &&
           side_fits(shape->KSize);
}

/* Prefers 16x16x16, which vendors tune, then the shape with the most MACs. */
static uint32_t shape_rank(uint32_t m, uint32_t n, uint32_t k)
{
    return m == 16 && n == 16 && k == 16 ? UINT32_MAX : m * n * k;
}

/* Finds which other matrices the device has in the chosen size. */
static void find_more(const rvit_vk_matrix_shape *shapes, uint32_t n, uint32_t features, rvit_vk_matrix *matrix)
{
    int multiplies_bf16 = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int is_size = shapes[i].MSize == matrix->m && shapes[i].NSize == matrix->n;
        if (is_size && shape_fits(&shapes[i], RVIT_VK_COMPONENT_F16, RVIT_VK_COMPONENT_F16))
            matrix->has_half_sums = 1;
        if (shapes[i].MSize == matrix->m && shapes[i].NSize == matrix->n / 2 && shapes[i].KSize == matrix->k &&
            shape_fits(&shapes[i], RVIT_VK_COMPONENT_F16, RVIT_VK_COMPONENT_F32))
            matrix->has_narrow_sums = 1;
        if (is_size && shapes[i].KSize == matrix->k && shape_fits(&shapes[i], RVIT_VK_COMPONENT_BF16, RVIT_VK_COMPONENT_F32))
            multiplies_bf16 = 1;
    }
    const uint32_t lacking = RVIT_VK_BF16_FEATURES & ~features;
    if ((lacking & RVIT_VK_EXT_BF16) != 0)
        matrix->why_no_bf16 = rvit_vk_feature_lacking(RVIT_VK_EXT_BF16);
    else if (lacking != 0)
        matrix->why_no_bf16 = rvit_vk_feature_lacking(lacking);
    else if (!multiplies_bf16)
        matrix->why_no_bf16 = "no matrix shape of f16 multiplies bf16 into f32 too";
    matrix->has_bf16 = matrix->why_no_bf16 == NULL;
}

/* For int8, first looks for matrices of as many bytes as the chosen f16 ones. They need one more feature. */
static void find_int8(const rvit_vk_matrix_shape *shapes, uint32_t n, uint32_t features, rvit_vk_matrix *matrix)
{
    for (uint32_t i = 0; i < n && (features & RVIT_VK_INT8) != 0; i++) {
        const rvit_vk_matrix_shape *s = &shapes[i];
        if (shape_fits(s, RVIT_VK_COMPONENT_I8, RVIT_VK_COMPONENT_I32) &&
            shape_rank(s->MSize, s->NSize, s->KSize / 2) > shape_rank(matrix->i8_m, matrix->i8_n, matrix->i8_k / 2)) {
            matrix->i8_m = s->MSize;
            matrix->i8_n = s->NSize;
            matrix->i8_k = s->KSize;
        }
    }
}

static const char *find_shape(const rvit_vk_instance *instance, VkPhysicalDevice device, uint32_t features, rvit_vk_matrix *matrix)
{
    const rvit_vk_get_matrix_shapes get =
        (rvit_vk_get_matrix_shapes)instance->get_proc(instance->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (get == NULL)
        return "the loader does not know " RVIT_VK_MATRIX_EXTENSION;
    rvit_vk_matrix_shape shapes[MAX_SHAPES];
    for (int i = 0; i < MAX_SHAPES; i++)
        shapes[i] = (rvit_vk_matrix_shape){.sType = RVIT_VK_MATRIX_SHAPE_TYPE};
    uint32_t n = MAX_SHAPES;
    const VkResult result = get(device, &n, shapes);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return "its matrix shapes cannot be read";
    for (uint32_t i = 0; i < n; i++)
        if (shape_fits(&shapes[i], RVIT_VK_COMPONENT_F16, RVIT_VK_COMPONENT_F32) &&
            shape_rank(shapes[i].MSize, shapes[i].NSize, shapes[i].KSize) > shape_rank(matrix->m, matrix->n, matrix->k)) {
            matrix->m = shapes[i].MSize;
            matrix->n = shapes[i].NSize;
            matrix->k = shapes[i].KSize;
        }
    find_more(shapes, n, features, matrix);
    find_int8(shapes, n, features, matrix);
    return matrix->m == 0 ? "no matrix shape with sides of 8, 16 or 32 multiplies f16 into f32" : NULL;
}

static const char *find_subgroup(const VkPhysicalDeviceProperties *properties, uint32_t subgroup_size,
                                 const VkPhysicalDeviceSubgroupSizeControlProperties *control, rvit_vk_matrix *matrix)
{
    /* Intel's driver reports its widest subgroup size, but its cooperative matrices need the narrowest. */
    matrix->subgroup = properties->vendorID == VENDOR_INTEL ? control->minSubgroupSize : subgroup_size;
    if ((control->requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
        return "the subgroup size of a compute shader cannot be set";
    if (matrix->subgroup < control->minSubgroupSize || matrix->subgroup > control->maxSubgroupSize || matrix->subgroup < 4)
        return "its subgroup size is out of range";
    return NULL;
}

/* Vulkan itself cannot report the number of multiprocessors. */
static uint32_t count_processors(const rvit_vk_instance *instance, const VkPhysicalDeviceProperties *device_properties,
                                 VkPhysicalDevice device)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sm};
    if (device_properties->vendorID == VENDOR_NVIDIA)
        instance->get_properties2(device, &properties);
    return sm.shaderSMCount > 0 ? sm.shaderSMCount : USUAL_PROCESSORS;
}

const char *rvit_vk_find_matrix(const rvit_vk_instance *instance, const VkPhysicalDeviceProperties *properties, uint32_t features,
                                const VkPhysicalDeviceSubgroupProperties *subgroup, VkPhysicalDevice device, rvit_vk_matrix *out_matrix)
{
    *out_matrix = (rvit_vk_matrix){0};
    if (properties->apiVersion < VK_API_VERSION_1_3)
        return "Vulkan 1.3 is needed";
    if ((features & RVIT_VK_EXT_MATRIX) == 0)
        return "no " RVIT_VK_MATRIX_EXTENSION;
    const VkSubgroupFeatureFlags needed =
        VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if ((subgroup->supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0 || (subgroup->supportedOperations & needed) != needed)
        return "no subgroup arithmetic, votes or shuffles in compute shaders";
    if ((features & RVIT_VK_MATRIX_FEATURES) != RVIT_VK_MATRIX_FEATURES)
        return rvit_vk_feature_lacking(RVIT_VK_MATRIX_FEATURES & ~features);

    rvit_vk_matrix_properties stages = {.sType = RVIT_VK_MATRIX_PROPERTIES_TYPE};
    VkPhysicalDeviceSubgroupSizeControlProperties control = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
                                                             .pNext = &stages};
    VkPhysicalDeviceProperties2 properties2 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &control};
    instance->get_properties2(device, &properties2);
    if ((stages.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
        return "no cooperative matrices in compute shaders";
    const char *reason = find_subgroup(properties, subgroup->subgroupSize, &control, out_matrix);
    if (reason == NULL)
        reason = find_shape(instance, device, features, out_matrix);
    if (reason != NULL)
        *out_matrix = (rvit_vk_matrix){0};
    else
        out_matrix->processors = count_processors(instance, properties, device);
    return reason;
}

int rvit_vk_is_matrix_shader(rvit_vk_shader shader)
{
    return shader == RVIT_VK_LINEAR_F16_VK_MATRIX || shader == RVIT_VK_LINEAR_F16_F32_VK_MATRIX ||
           shader == RVIT_VK_LINEAR_DIRECT_F16_VK_MATRIX || shader == RVIT_VK_LINEAR_DIRECT_F16_F32_VK_MATRIX ||
           shader == RVIT_VK_LINEAR_I8_F16_VK_MATRIX || shader == RVIT_VK_LINEAR_I8_F32_VK_MATRIX ||
           shader == RVIT_VK_LINEAR_BF16_VK_MATRIX || shader == RVIT_VK_LINEAR_BF16_F32_VK_MATRIX ||
           shader == RVIT_VK_ATTENTION_F16_VK_MATRIX || shader == RVIT_VK_ATTENTION_ROWS_F16_VK_MATRIX ||
           shader == RVIT_VK_ATTENTION_BF16_VK_MATRIX;
}

int32_t rvit_vk_native_dtypes(const rvit_vk_physical *physical, rvit_tier tier, uint32_t features)
{
    const int matrices = tier == RVIT_TIER_MATRIX && physical->matrix.i8_m != 0;
    const int dots = tier >= RVIT_TIER_SUBGROUP && (features & RVIT_VK_DOT) != 0 && physical->dot_is_fast;
    return matrices || dots ? 1 << RVIT_I8 : 0;
}
