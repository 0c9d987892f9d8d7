# rvit_embed_spirv(TARGET LIST SHADER_DIR OUT_DIR): compiles the shaders that the file LIST names to SPIR-V and writes
# OUT_DIR/vulkan_shaders.h (an enum and a table) and OUT_DIR/vulkan_shaders.c (the words); TARGET builds them. Shaders of the matrix tier
# are compiled by RVIT_GLSLANG_MATRIX; without it, the files in SHADER_DIR/spirv are used. tools/regenerate_spirv.sh uses the same options.
function(rvit_embed_spirv target list shader_dir out_dir)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(MAKE_DIRECTORY ${out_dir})
  file(GLOB common CONFIGURE_DEPENDS ${shader_dir}/common/*)
  file(STRINGS ${list} lines REGEX "^[a-z]")
  set(names "")
  set(includes "")
  set(codes "")
  set(words_files "")
  foreach(line IN LISTS lines)
    separate_arguments(fields UNIX_COMMAND "${line}")
    list(POP_FRONT fields name source)
    list(TRANSFORM fields PREPEND -D OUTPUT_VARIABLE definitions)
    set(words ${out_dir}/${name}.spv.h)
    set(compiler ${RVIT_GLSLANG})
    set(environment vulkan1.1)
    if(name MATCHES "_matrix$")
      set(compiler ${RVIT_GLSLANG_MATRIX})
      set(environment vulkan1.2)
    endif()
    if(name MATCHES "_matrix$" AND NOT RVIT_GLSLANG_MATRIX)
      file(COPY_FILE ${shader_dir}/spirv/${name}.inc ${words} ONLY_IF_DIFFERENT)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader_dir}/spirv/${name}.inc)
    else()
      add_custom_command(
        OUTPUT ${words}
        COMMAND ${compiler} --quiet -V --target-env ${environment} -g0 ${definitions} -I${shader_dir} --vn ${name} -o ${words}
                ${shader_dir}/${source}.comp
        DEPENDS ${shader_dir}/${source}.comp ${common}
        COMMENT "Shader ${name}"
        VERBATIM)
      list(APPEND words_files ${words})
    endif()
    string(TOUPPER ${name} upper)
    string(APPEND names "    RVIT_VK_${upper},\n")
    string(APPEND includes "#include \"${name}.spv.h\"\n")
    string(APPEND codes "    {\"${name}\", ${name}, sizeof ${name}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out_dir}/vulkan_shaders.h @ONLY CONTENT
"/* Generated from shaders/variants.txt. */
#ifndef RVIT_VULKAN_SHADERS_H
#define RVIT_VULKAN_SHADERS_H

#include <stddef.h>
#include <stdint.h>

typedef enum rvit_vk_shader {
${names}    RVIT_VK_SHADER_COUNT
} rvit_vk_shader;

typedef struct rvit_vk_shader_code {
    const char *name;
    const uint32_t *words;
    size_t size;
} rvit_vk_shader_code;

/* Indexed by rvit_vk_shader. */
extern const rvit_vk_shader_code rvit_vk_shader_codes[];

#endif
")
  file(CONFIGURE OUTPUT ${out_dir}/vulkan_shaders.c @ONLY CONTENT
"/* Generated from shaders/variants.txt. */
#include \"vulkan_shaders.h\"

${includes}
const rvit_vk_shader_code rvit_vk_shader_codes[] = {
${codes}};
")
  add_custom_target(${target} DEPENDS ${words_files})
endfunction()
