/* The layout of every public struct on x86-64: fields are appended, never moved, so a line here changes only when a field joins a struct
   at its end (and its size then grows). Checked when this is compiled; nothing in it runs. */
#include <stddef.h>

#include <raggedvit/raggedvit.h>
#include <raggedvit/vulkan.h>

#if defined(__x86_64__) && defined(__LP64__)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "the size of " #type " has changed")
#define FIELD(type, field, at) _Static_assert(offsetof(type, field) == (at), #field " has moved in " #type)

SIZE(rvit_device_info, 560);
FIELD(rvit_device_info, struct_size, 0);
FIELD(rvit_device_info, backend, 8);
FIELD(rvit_device_info, index, 12);
FIELD(rvit_device_info, is_software, 16);
FIELD(rvit_device_info, tier, 20);
FIELD(rvit_device_info, memory_size, 24);
FIELD(rvit_device_info, uuid, 32);
FIELD(rvit_device_info, name, 48);
FIELD(rvit_device_info, driver, 176);
FIELD(rvit_device_info, note, 304);

SIZE(rvit_allocator, 24);
FIELD(rvit_allocator, user, 0);
FIELD(rvit_allocator, allocate, 8);
FIELD(rvit_allocator, release, 16);

SIZE(rvit_device_desc, 80);
FIELD(rvit_device_desc, struct_size, 0);
FIELD(rvit_device_desc, backend, 8);
FIELD(rvit_device_desc, index, 12);
FIELD(rvit_device_desc, tier, 16);
FIELD(rvit_device_desc, n_threads, 20);
FIELD(rvit_device_desc, oracle, 24);
FIELD(rvit_device_desc, debug_checks, 28);
FIELD(rvit_device_desc, allocator, 32);
FIELD(rvit_device_desc, vector_bits, 40);
FIELD(rvit_device_desc, skip_self_test, 44);
FIELD(rvit_device_desc, cache_data, 48);
FIELD(rvit_device_desc, cache_size, 56);
FIELD(rvit_device_desc, submit_work, 64);
FIELD(rvit_device_desc, poll_us, 72);

SIZE(rvit_view, 16);
FIELD(rvit_view, buffer, 0);
FIELD(rvit_view, offset, 8);

SIZE(rvit_stats, 88);
FIELD(rvit_stats, struct_size, 0);
FIELD(rvit_stats, launches, 8);
FIELD(rvit_stats, submits, 16);
FIELD(rvit_stats, synchronizations, 24);
FIELD(rvit_stats, copies, 32);
FIELD(rvit_stats, host_allocations, 40);
FIELD(rvit_stats, device_allocations, 48);
FIELD(rvit_stats, device_size, 56);
FIELD(rvit_stats, upload_size, 64);
FIELD(rvit_stats, readback_size, 72);
FIELD(rvit_stats, working_size, 80);

SIZE(rvit_copy_args, 48);
FIELD(rvit_copy_args, struct_size, 0);
FIELD(rvit_copy_args, source, 8);
FIELD(rvit_copy_args, destination, 24);
FIELD(rvit_copy_args, size, 40);

SIZE(rvit_rows, 32);
FIELD(rvit_rows, capacity, 0);
FIELD(rvit_rows, live, 8);
FIELD(rvit_rows, padded, 24);

SIZE(rvit_attention_args, 208);
FIELD(rvit_attention_args, struct_size, 0);
FIELD(rvit_attention_args, dtype, 8);
FIELD(rvit_attention_args, n_images, 12);
FIELD(rvit_attention_args, n_heads, 16);
FIELD(rvit_attention_args, head_dim, 20);
FIELD(rvit_attention_args, max_len, 24);
FIELD(rvit_attention_args, rows, 32);
FIELD(rvit_attention_args, scale, 40);
FIELD(rvit_attention_args, q, 48);
FIELD(rvit_attention_args, k, 64);
FIELD(rvit_attention_args, v, 80);
FIELD(rvit_attention_args, q_stride, 96);
FIELD(rvit_attention_args, k_stride, 104);
FIELD(rvit_attention_args, v_stride, 112);
FIELD(rvit_attention_args, cu_seqlens, 120);
FIELD(rvit_attention_args, key_bias, 136);
FIELD(rvit_attention_args, out, 152);
FIELD(rvit_attention_args, out_stride, 168);
FIELD(rvit_attention_args, cls_probs, 176);
FIELD(rvit_attention_args, lse, 192);

SIZE(rvit_linear_args, 168);
FIELD(rvit_linear_args, struct_size, 0);
FIELD(rvit_linear_args, dtype, 8);
FIELD(rvit_linear_args, out_dtype, 12);
FIELD(rvit_linear_args, rows, 16);
FIELD(rvit_linear_args, in_features, 48);
FIELD(rvit_linear_args, out_features, 52);
FIELD(rvit_linear_args, activation, 56);
FIELD(rvit_linear_args, x, 64);
FIELD(rvit_linear_args, weight, 80);
FIELD(rvit_linear_args, bias, 96);
FIELD(rvit_linear_args, residual, 112);
FIELD(rvit_linear_args, residual_period, 128);
FIELD(rvit_linear_args, out, 136);
FIELD(rvit_linear_args, bias_narrow, 152);

SIZE(rvit_layernorm_args, 160);
FIELD(rvit_layernorm_args, struct_size, 0);
FIELD(rvit_layernorm_args, dtype, 8);
FIELD(rvit_layernorm_args, out_dtype, 12);
FIELD(rvit_layernorm_args, rows, 16);
FIELD(rvit_layernorm_args, x_rows, 48);
FIELD(rvit_layernorm_args, dim, 56);
FIELD(rvit_layernorm_args, eps, 60);
FIELD(rvit_layernorm_args, x, 64);
FIELD(rvit_layernorm_args, src_rows, 80);
FIELD(rvit_layernorm_args, gamma, 96);
FIELD(rvit_layernorm_args, beta, 112);
FIELD(rvit_layernorm_args, out, 128);
FIELD(rvit_layernorm_args, out_x, 144);

SIZE(rvit_pack_args, 104);
FIELD(rvit_pack_args, struct_size, 0);
FIELD(rvit_pack_args, rows, 8);
FIELD(rvit_pack_args, source_rows, 40);
FIELD(rvit_pack_args, row_size, 48);
FIELD(rvit_pack_args, source, 56);
FIELD(rvit_pack_args, src_rows, 72);
FIELD(rvit_pack_args, destination, 88);

SIZE(rvit_unpack_args, 152);
FIELD(rvit_unpack_args, struct_size, 0);
FIELD(rvit_unpack_args, dtype, 8);
FIELD(rvit_unpack_args, rows, 16);
FIELD(rvit_unpack_args, destination_rows, 48);
FIELD(rvit_unpack_args, dim, 80);
FIELD(rvit_unpack_args, fill, 84);
FIELD(rvit_unpack_args, source, 88);
FIELD(rvit_unpack_args, src_rows, 104);
FIELD(rvit_unpack_args, base, 120);
FIELD(rvit_unpack_args, destination, 136);

SIZE(rvit_select_args, 328);
FIELD(rvit_select_args, struct_size, 0);
FIELD(rvit_select_args, mode, 8);
FIELD(rvit_select_args, score, 12);
FIELD(rvit_select_args, n_images, 16);
FIELD(rvit_select_args, max_len, 20);
FIELD(rvit_select_args, rows, 24);
FIELD(rvit_select_args, n_prefix, 32);
FIELD(rvit_select_args, prefix_competes, 36);
FIELD(rvit_select_args, threshold, 40);
FIELD(rvit_select_args, k_min, 44);
FIELD(rvit_select_args, n_samples, 48);
FIELD(rvit_select_args, mass, 56);
FIELD(rvit_select_args, dtype, 64);
FIELD(rvit_select_args, dim, 68);
FIELD(rvit_select_args, n_heads, 72);
FIELD(rvit_select_args, x_stride, 80);
FIELD(rvit_select_args, x, 88);
FIELD(rvit_select_args, cls_probs, 104);
FIELD(rvit_select_args, weight, 120);
FIELD(rvit_select_args, bias, 136);
FIELD(rvit_select_args, position_scores, 152);
FIELD(rvit_select_args, counts, 168);
FIELD(rvit_select_args, scores, 184);
FIELD(rvit_select_args, keep_in, 200);
FIELD(rvit_select_args, cu_seqlens, 216);
FIELD(rvit_select_args, fuse_dtype, 232);
FIELD(rvit_select_args, fuse_dim, 236);
FIELD(rvit_select_args, fuse_x, 240);
FIELD(rvit_select_args, keep, 256);
FIELD(rvit_select_args, out_cu_seqlens, 272);
FIELD(rvit_select_args, src_rows, 288);
FIELD(rvit_select_args, error, 304);
FIELD(rvit_select_args, error_stays, 320);

SIZE(rvit_mean_args, 80);
FIELD(rvit_mean_args, struct_size, 0);
FIELD(rvit_mean_args, dtype, 8);
FIELD(rvit_mean_args, n_images, 12);
FIELD(rvit_mean_args, max_len, 16);
FIELD(rvit_mean_args, rows, 24);
FIELD(rvit_mean_args, n_prefix, 32);
FIELD(rvit_mean_args, dim, 36);
FIELD(rvit_mean_args, first_column, 40);
FIELD(rvit_mean_args, cu_seqlens, 48);
FIELD(rvit_mean_args, x, 64);

SIZE(rvit_match_args, 168);
FIELD(rvit_match_args, struct_size, 0);
FIELD(rvit_match_args, dtype, 8);
FIELD(rvit_match_args, n_images, 12);
FIELD(rvit_match_args, max_len, 16);
FIELD(rvit_match_args, rows, 24);
FIELD(rvit_match_args, n_prefix, 32);
FIELD(rvit_match_args, n_heads, 36);
FIELD(rvit_match_args, head_dim, 40);
FIELD(rvit_match_args, merges, 44);
FIELD(rvit_match_args, k_stride, 48);
FIELD(rvit_match_args, k, 56);
FIELD(rvit_match_args, cu_seqlens, 72);
FIELD(rvit_match_args, metric, 88);
FIELD(rvit_match_args, keep, 104);
FIELD(rvit_match_args, out_cu_seqlens, 120);
FIELD(rvit_match_args, src_rows, 136);
FIELD(rvit_match_args, next_rows, 152);

SIZE(rvit_merge_args, 176);
FIELD(rvit_merge_args, struct_size, 0);
FIELD(rvit_merge_args, dtype, 8);
FIELD(rvit_merge_args, rows, 16);
FIELD(rvit_merge_args, x_rows, 48);
FIELD(rvit_merge_args, dim, 56);
FIELD(rvit_merge_args, x, 64);
FIELD(rvit_merge_args, sizes, 80);
FIELD(rvit_merge_args, src_rows, 96);
FIELD(rvit_merge_args, next_rows, 112);
FIELD(rvit_merge_args, out_x, 128);
FIELD(rvit_merge_args, out_sizes, 144);
FIELD(rvit_merge_args, out_key_bias, 160);

SIZE(rvit_prune_desc, 384);
FIELD(rvit_prune_desc, struct_size, 0);
FIELD(rvit_prune_desc, type, 8);
FIELD(rvit_prune_desc, keep, 16);
FIELD(rvit_prune_desc, n_blocks, 24);
FIELD(rvit_prune_desc, blocks, 28);
FIELD(rvit_prune_desc, threshold, 288);
FIELD(rvit_prune_desc, mass, 296);
FIELD(rvit_prune_desc, n_samples, 304);
FIELD(rvit_prune_desc, merges, 308);
FIELD(rvit_prune_desc, seed, 312);
FIELD(rvit_prune_desc, reserved, 320);

SIZE(rvit_prune_info, 104);
FIELD(rvit_prune_info, struct_size, 0);
FIELD(rvit_prune_info, type, 8);
FIELD(rvit_prune_info, parameters, 12);
FIELD(rvit_prune_info, name, 16);
FIELD(rvit_prune_info, summary, 24);
FIELD(rvit_prune_info, source, 32);
FIELD(rvit_prune_info, site, 40);
FIELD(rvit_prune_info, default_keep, 48);
FIELD(rvit_prune_info, n_default_blocks, 56);
FIELD(rvit_prune_info, default_blocks, 60);
FIELD(rvit_prune_info, default_threshold, 80);
FIELD(rvit_prune_info, default_mass, 88);
FIELD(rvit_prune_info, default_samples, 96);
FIELD(rvit_prune_info, default_merges, 100);

SIZE(rvit_patchify_args, 96);
FIELD(rvit_patchify_args, struct_size, 0);
FIELD(rvit_patchify_args, dtype, 8);
FIELD(rvit_patchify_args, n_images, 12);
FIELD(rvit_patchify_args, live_images, 16);
FIELD(rvit_patchify_args, channels, 32);
FIELD(rvit_patchify_args, image_size, 36);
FIELD(rvit_patchify_args, patch_size, 40);
FIELD(rvit_patchify_args, n_prefix, 44);
FIELD(rvit_patchify_args, images, 48);
FIELD(rvit_patchify_args, out, 64);
FIELD(rvit_patchify_args, cu_seqlens, 80);

SIZE(rvit_head_args, 160);
FIELD(rvit_head_args, struct_size, 0);
FIELD(rvit_head_args, dtype, 8);
FIELD(rvit_head_args, weight_dtype, 12);
FIELD(rvit_head_args, n_images, 16);
FIELD(rvit_head_args, rows, 24);
FIELD(rvit_head_args, dim, 32);
FIELD(rvit_head_args, n_tokens, 36);
FIELD(rvit_head_args, n_classes, 40);
FIELD(rvit_head_args, eps, 44);
FIELD(rvit_head_args, x, 48);
FIELD(rvit_head_args, cu_seqlens, 64);
FIELD(rvit_head_args, gamma, 80);
FIELD(rvit_head_args, beta, 96);
FIELD(rvit_head_args, weight, 112);
FIELD(rvit_head_args, bias, 128);
FIELD(rvit_head_args, logits, 144);

SIZE(rvit_model_info, 208);
FIELD(rvit_model_info, struct_size, 0);
FIELD(rvit_model_info, architecture, 8);
FIELD(rvit_model_info, family, 72);
FIELD(rvit_model_info, image_size, 104);
FIELD(rvit_model_info, patch_size, 108);
FIELD(rvit_model_info, channels, 112);
FIELD(rvit_model_info, dim, 116);
FIELD(rvit_model_info, n_heads, 120);
FIELD(rvit_model_info, head_dim, 124);
FIELD(rvit_model_info, depth, 128);
FIELD(rvit_model_info, mlp_dim, 132);
FIELD(rvit_model_info, n_prefix, 136);
FIELD(rvit_model_info, tokens, 140);
FIELD(rvit_model_info, n_classes, 144);
FIELD(rvit_model_info, eps, 148);
FIELD(rvit_model_info, n_parameters, 152);
FIELD(rvit_model_info, n_tensors, 160);
FIELD(rvit_model_info, n_unknown, 164);
FIELD(rvit_model_info, n_by_dtype, 168);
FIELD(rvit_model_info, distilled, 180);
FIELD(rvit_model_info, n_registers, 184);
FIELD(rvit_model_info, n_predictors, 188);
FIELD(rvit_model_info, n_files, 192);
FIELD(rvit_model_info, trained_size, 196);
FIELD(rvit_model_info, weights_size, 200);

SIZE(rvit_checkpoint_desc, 40);
FIELD(rvit_checkpoint_desc, struct_size, 0);
FIELD(rvit_checkpoint_desc, lenient, 8);
FIELD(rvit_checkpoint_desc, allocator, 16);
FIELD(rvit_checkpoint_desc, image_size, 24);
FIELD(rvit_checkpoint_desc, resample, 28);
FIELD(rvit_checkpoint_desc, eps, 32);

SIZE(rvit_model_desc, 16);
FIELD(rvit_model_desc, struct_size, 0);
FIELD(rvit_model_desc, dtype, 8);

SIZE(rvit_session_desc, 456);
FIELD(rvit_session_desc, struct_size, 0);
FIELD(rvit_session_desc, max_images, 8);
FIELD(rvit_session_desc, prune, 16);
FIELD(rvit_session_desc, trace, 400);
FIELD(rvit_session_desc, outputs, 404);
FIELD(rvit_session_desc, fixed_batch, 408);
FIELD(rvit_session_desc, dense_fallback, 412);
FIELD(rvit_session_desc, stream, 416);
FIELD(rvit_session_desc, images, 424);
FIELD(rvit_session_desc, logits, 440);

SIZE(rvit_memory_info, 48);
FIELD(rvit_memory_info, struct_size, 0);
FIELD(rvit_memory_info, device_size, 8);
FIELD(rvit_memory_info, upload_size, 16);
FIELD(rvit_memory_info, readback_size, 24);
FIELD(rvit_memory_info, trace_size, 32);
FIELD(rvit_memory_info, host_size, 40);

SIZE(rvit_session_info, 32);
FIELD(rvit_session_info, struct_size, 0);
FIELD(rvit_session_info, n_stages, 8);
FIELD(rvit_session_info, fell_back, 12);
FIELD(rvit_session_info, dense_us, 16);
FIELD(rvit_session_info, pruned_us, 24);

SIZE(rvit_run_args, 32);
FIELD(rvit_run_args, struct_size, 0);
FIELD(rvit_run_args, n_images, 8);
FIELD(rvit_run_args, images, 16);
FIELD(rvit_run_args, keep, 24);

SIZE(rvit_vulkan_device_desc, 104);
FIELD(rvit_vulkan_device_desc, struct_size, 0);
FIELD(rvit_vulkan_device_desc, instance, 8);
FIELD(rvit_vulkan_device_desc, physical_device, 16);
FIELD(rvit_vulkan_device_desc, device, 24);
FIELD(rvit_vulkan_device_desc, queue, 32);
FIELD(rvit_vulkan_device_desc, queue_family, 40);
FIELD(rvit_vulkan_device_desc, api_version, 44);
FIELD(rvit_vulkan_device_desc, get_instance_proc_addr, 48);
FIELD(rvit_vulkan_device_desc, features, 56);
FIELD(rvit_vulkan_device_desc, extensions, 64);
FIELD(rvit_vulkan_device_desc, n_extensions, 72);
FIELD(rvit_vulkan_device_desc, lock_queue, 80);
FIELD(rvit_vulkan_device_desc, unlock_queue, 88);
FIELD(rvit_vulkan_device_desc, user, 96);

SIZE(rvit_vulkan_buffer_desc, 48);
FIELD(rvit_vulkan_buffer_desc, struct_size, 0);
FIELD(rvit_vulkan_buffer_desc, buffer, 8);
FIELD(rvit_vulkan_buffer_desc, buffer_size, 16);
FIELD(rvit_vulkan_buffer_desc, usage, 24);
FIELD(rvit_vulkan_buffer_desc, offset, 32);
FIELD(rvit_vulkan_buffer_desc, size, 40);

SIZE(rvit_vulkan_memory, 32);
FIELD(rvit_vulkan_memory, struct_size, 0);
FIELD(rvit_vulkan_memory, fd, 8);
FIELD(rvit_vulkan_memory, memory_type, 12);
FIELD(rvit_vulkan_memory, memory_size, 16);
FIELD(rvit_vulkan_memory, offset, 24);

#endif
