/* The parts of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16 that are used, under our own names: the Vulkan headers of Debian 12
   (1.3.239) lack both extensions, newer ones have them. */
#ifndef RVIT_BACKEND_VULKAN_COOPERATIVE_MATRIX_H
#define RVIT_BACKEND_VULKAN_COOPERATIVE_MATRIX_H

#include "backend_vulkan/vulkan.h"

#define RVIT_VK_MATRIX_EXTENSION "VK_KHR_cooperative_matrix"
#define RVIT_VK_MATRIX_FEATURES_TYPE ((VkStructureType)1000506000)
#define RVIT_VK_MATRIX_SHAPE_TYPE ((VkStructureType)1000506001)
#define RVIT_VK_MATRIX_PROPERTIES_TYPE ((VkStructureType)1000506002)
#define RVIT_VK_BF16_EXTENSION "VK_KHR_shader_bfloat16"
#define RVIT_VK_BF16_FEATURES_TYPE ((VkStructureType)1000141000)

typedef enum rvit_vk_component {
    RVIT_VK_COMPONENT_F16 = 0,
    RVIT_VK_COMPONENT_F32 = 1,
    RVIT_VK_COMPONENT_I8 = 3,
    RVIT_VK_COMPONENT_I32 = 5,
    RVIT_VK_COMPONENT_BF16 = 1000141000,
    RVIT_VK_COMPONENT_LAST = 0x7fffffff
} rvit_vk_component;
typedef enum rvit_vk_scope { RVIT_VK_SCOPE_SUBGROUP = 3, RVIT_VK_SCOPE_LAST = 0x7fffffff } rvit_vk_scope;

typedef struct rvit_vk_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix;
    VkBool32 cooperativeMatrixRobustBufferAccess;
} rvit_vk_matrix_features;

typedef struct rvit_vk_bf16_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderBFloat16Type;
    VkBool32 shaderBFloat16DotProduct;
    VkBool32 shaderBFloat16CooperativeMatrix;
} rvit_vk_bf16_features;

typedef struct rvit_vk_matrix_shape {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    rvit_vk_component AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    rvit_vk_scope scope;
} rvit_vk_matrix_shape;

typedef struct rvit_vk_matrix_properties {
    VkStructureType sType;
    void *pNext;
    VkShaderStageFlags cooperativeMatrixSupportedStages;
} rvit_vk_matrix_properties;

typedef VkResult(VKAPI_PTR *rvit_vk_get_matrix_shapes)(VkPhysicalDevice device, uint32_t *n, rvit_vk_matrix_shape *shapes);

#endif
