# The quick tests, which tools/test.sh runs. They reach every kernel, every shader and each part of the library at least once, in minutes on
# a machine without a GPU. tools/test.sh --full runs all tests. The target quick_tests builds only what the quick tests need.

# Tests that are quick with all their cases.
set(quick headers symbols runpath stack_frames spirv rooms option_table output_file accuracy_views_counts
  test_safetensors test_checkpoint test_shards test_families test_config test_config_parts test_family_parts test_quantized_tensors
  test_pos_embed test_system test_image_axes test_cpu_fused_ops test_cpu_tables test_cpu_kernels unload properties_cpu api_cpu
  image orientation plain_jpeg float_text judge private_text video preprocess zero_shot cli_images cli_streams cli_failures
  attention_long_cuda_emulated e4m3_cuda_emulated
  python_layouts readme_python readme_c readme_tables memory_page
  example_devices example_attention example_video example_classify configure_off)

# quick_test(NAME COMMAND...): a test with few cases. A test of another name runs all cases (--full).
function(quick_test name)
  rvit_add_test(${name} ${ARGN})
  environment_for(${name} RVIT_TEST_CASES=few)
  set(quick ${quick} ${name} PARENT_SCOPE)
endfunction()

foreach(name ops model)
  quick_test(${name}_cpu_few test_${name} --backend cpu)
endforeach()

if(RVIT_HAVE_VULKAN)
  set(pipelines ${CMAKE_CURRENT_BINARY_DIR}/pipelines)
  # shader_test(NAME PROGRAM ARGUMENT...): records its pipelines in a file.
  function(shader_test name)
    quick_test(shaders_${name} ${ARGN})
    environment_for(shaders_${name} RVIT_TEST_PIPELINES=${pipelines}_of_${name})
    set(quick ${quick} PARENT_SCOPE)
    set(shader_tests ${shader_tests} ${name} PARENT_SCOPE)
  endfunction()
  # One or two tests of each op. They spend most of their time in Mesa, which compiles a pipeline for each shape in half a second.
  set(op_cases *_variants attention_options proportional_attention embed_resamples grid_rope_vectors grid_windows_limits head_norms
    head_sizes layernorm_bytes layernorm_rows linear_bytes_of_models linear_forms match_in_units match_lengths match_long_in_windows
    mean_widths merge_rows pack_row_sizes pixelprune_random pool_shapes pool_sizes preprocess_batches probe_shapes probe_sizes
    quantize_activations received_scales grid_relayout_random score_near_anchors select_top_k)
  list(JOIN op_cases "," op_cases)
  foreach(tier subgroup scalar)
    shader_test(${tier} test_ops --backend vulkan --tier ${tier} --choice ${op_cases})
    # Selection takes several dispatches, because the minimum device has so few storage buffers.
    shader_test(minimum_${tier} test_ops --backend vulkan --tier ${tier} --choice "fuse_variants,score_l2,select_top_k")
    environment_for(shaders_minimum_${tier} RVIT_TEST_LAYER=minimum)
  endforeach()
  shader_test(lines test_ops --backend vulkan --tier subgroup --choice attention_head_dims)
  environment_for(shaders_lines RVIT_TEST_LAYER=no_texels)
  foreach(name minimum_subgroup minimum_scalar lines)
    environment_for(shaders_${name} VK_LAYER_PATH=${layers} VK_INSTANCE_LAYERS=VK_LAYER_RVIT_test)
  endforeach()
  shader_test(arranged test_vulkan --backend vulkan --choice arrange_suite)
  shader_test(model test_model --backend vulkan --choice pruned_by_*)
  list(TRANSFORM shader_tests PREPEND ${pipelines}_of_ OUTPUT_VARIABLE files)
  rvit_add_test(shaders_made sh ${CMAKE_CURRENT_SOURCE_DIR}/vulkan_shaders.sh ${PROJECT_SOURCE_DIR}/shaders/variants.txt
    "(_vk|_scalar|_subgroup)$" ${files})
  list(TRANSFORM shader_tests PREPEND shaders_ OUTPUT_VARIABLE depends)
  set_tests_properties(shaders_made PROPERTIES DEPENDS "${depends}")
  list(APPEND quick shaders_made)
endif()

if(RVIT_HAVE_CUDA AND RVIT_CUDA_EMULATION_LT_DIR)
  set(launched ${CMAKE_CURRENT_BINARY_DIR}/launched_by_few_)
  # kernel_test(NAME PROGRAM ARGUMENT...): records its launches in a file.
  function(kernel_test name)
    quick_test(kernels_${name} ${ARGN} --backend cuda)
    environment_for(kernels_${name} RVIT_EMU_LAUNCHED=${launched}${name}
      LD_LIBRARY_PATH=${RVIT_CUDA_EMULATION_LT_DIR}:${RVIT_CUDA_EMULATION_DIR})
    set_tests_properties(kernels_${name} PROPERTIES FAIL_REGULAR_EXPRESSION "cuBLASLt emulation:")
    set(quick ${quick} PARENT_SCOPE)
    set(kernel_tests ${kernel_tests} ${name} PARENT_SCOPE)
  endfunction()
  kernel_test(ops test_ops)
  kernel_test(own test_cuda --choice attention_variants,e4m3_*,hopper_*,in_*_pass*,linear_variants,negative_scale)
  kernel_test(hopper test_cuda --choice hopper*)
  kernel_test(long test_cuda --choice long*)
  environment_for(kernels_hopper RVIT_EMU_ARCH=90 RVIT_EMU_SEED=7)
  environment_for(kernels_long RVIT_EMU_ARCH=90 RVIT_EMU_SEED=7 RVIT_EMU_PROCESSORS=3)
  # Kernels that only the full set of cases reaches.
  kernel_test(rest test_ops --choice layernorm_bytes*,pool_*,quantize_activations,received_head_dims)
  set_property(TEST kernels_rest APPEND PROPERTY ENVIRONMENT_MODIFICATION RVIT_TEST_CASES=unset:)
  list(TRANSFORM kernel_tests PREPEND ${launched} OUTPUT_VARIABLE files)
  rvit_add_test(kernels_launched sh ${CMAKE_CURRENT_SOURCE_DIR}/cuda_launched.sh ${files})
  list(TRANSFORM kernel_tests PREPEND kernels_ OUTPUT_VARIABLE depends)
  set_tests_properties(kernels_launched PROPERTIES DEPENDS "${depends}")
  list(APPEND quick kernels_launched)
endif()

add_custom_target(quick_tests)
foreach(name IN LISTS quick)
  if(TEST ${name})
    set_property(TEST ${name} APPEND PROPERTY LABELS quick)
    get_property(programs GLOBAL PROPERTY rvit_programs_of_${name})
    if(programs)
      add_dependencies(quick_tests ${programs})
    endif()
  endif()
endforeach()
# Targets that the tests open at run time.
foreach(name raggedvit raggedvit_python_core json_get raw_pixels cuda_emulation cuda_emulation_lt rvit_test_layer)
  if(TARGET ${name})
    add_dependencies(quick_tests ${name})
  endif()
endforeach()
