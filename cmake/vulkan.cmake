# Finds Vulkan headers, volk (header and source) and glslangValidator, to build the Vulkan backend. Nothing is linked: volk opens the loader
# at run time.
set(RVIT_HAVE_VULKAN OFF)
if(NOT RVIT_VULKAN STREQUAL "OFF")
  find_path(RVIT_VULKAN_INCLUDE vulkan/vulkan_core.h)
  find_path(RVIT_VOLK_INCLUDE volk.h PATH_SUFFIXES . volk Volk)
  find_program(RVIT_GLSLANG NAMES glslangValidator glslang)
  set(lacks "")
  if(NOT RVIT_VULKAN_INCLUDE)
    list(APPEND lacks "vulkan/vulkan_core.h (Debian: libvulkan-dev)")
  endif()
  if(NOT RVIT_VOLK_INCLUDE OR NOT EXISTS ${RVIT_VOLK_INCLUDE}/volk.c)
    list(APPEND lacks "volk.h with volk.c (libvulkan-volk-dev)")
  endif()
  if(NOT RVIT_GLSLANG)
    list(APPEND lacks "glslangValidator (glslang-tools)")
  endif()
  list(JOIN lacks ", " lacks)
  if(NOT lacks)
    set(RVIT_HAVE_VULKAN ON)
  elseif(RVIT_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "RVIT_VULKAN=ON needs ${lacks}")
  else()
    message(STATUS "Vulkan backend left out: it needs ${lacks}")
  endif()
endif()

# The shaders of the matrix tier need a glslang with GL_KHR_cooperative_matrix and GL_EXT_bfloat16: Debian 12's has neither, Debian 13's
# lacks the latter. RVIT_GLSLANG_MATRIX can name one. If it is OFF or there is none, the SPIR-V in shaders/spirv is used.
if(RVIT_HAVE_VULKAN AND NOT DEFINED CACHE{RVIT_GLSLANG_MATRIX})
  set(probe ${CMAKE_BINARY_DIR}/cooperative_matrix_probe)
  file(WRITE ${probe}.comp "#version 450
#extension GL_EXT_bfloat16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#define SUM coopmat<float, gl_ScopeSubgroup, 8, 8, gl_MatrixUseAccumulator>
void main() { SUM sum = SUM(0.0); }
")
  execute_process(COMMAND ${RVIT_GLSLANG} --quiet -V --target-env vulkan1.2 -o ${probe}.spv ${probe}.comp
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  set(found OFF)
  if(result EQUAL 0)
    set(found ${RVIT_GLSLANG})
  endif()
  set(RVIT_GLSLANG_MATRIX ${found} CACHE FILEPATH "A glslang that compiles the matrix tier; OFF: shaders/spirv is built in")
endif()
