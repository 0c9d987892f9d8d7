"""Structs and functions of raggedvit's C API. Written by python/generate_layouts.py; do not edit."""

from __future__ import annotations

from ctypes import c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p, sizeof
from typing import Any

from ._structs import Struct, array, fill


class rvit_device_info(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("backend", c_int),
        ("index", c_int32),
        ("is_software", c_int32),
        ("tier", c_int),
        ("memory_size", c_int64),
        ("uuid", array(c_uint8, 16)),
        ("name", c_char * 128),
        ("driver", c_char * 128),
        ("note", c_char * 256),
    ]


class rvit_allocator(Struct):
    _fields_ = [
        ("user", c_void_p),
        ("allocate", c_void_p),
        ("release", c_void_p),
    ]


class rvit_device_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("backend", c_int),
        ("index", c_int32),
        ("tier", c_int),
        ("n_threads", c_int32),
        ("oracle", c_int32),
        ("debug_checks", c_int32),
        ("allocator", c_void_p),
        ("vector_bits", c_int32),
        ("skip_self_test", c_int32),
        ("cache_data", c_void_p),
        ("cache_size", c_size_t),
        ("submit_work", c_int64),
        ("poll_us", c_int32),
    ]


class rvit_view(Struct):
    _fields_ = [
        ("buffer", c_void_p),
        ("offset", c_int64),
    ]


class rvit_stats(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("launches", c_int64),
        ("submits", c_int64),
        ("synchronizations", c_int64),
        ("copies", c_int64),
        ("host_allocations", c_int64),
        ("device_allocations", c_int64),
        ("device_size", c_int64),
        ("upload_size", c_int64),
        ("readback_size", c_int64),
        ("working_size", c_int64),
    ]


class rvit_copy_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("source", rvit_view),
        ("destination", rvit_view),
        ("size", c_int64),
    ]


class rvit_rows(Struct):
    _fields_ = [
        ("capacity", c_int64),
        ("live", rvit_view),
        ("padded", c_int32),
    ]


class rvit_attention_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("n_images", c_int32),
        ("n_heads", c_int32),
        ("head_dim", c_int32),
        ("max_len", c_int32),
        ("rows", c_int64),
        ("scale", c_float),
        ("q", rvit_view),
        ("k", rvit_view),
        ("v", rvit_view),
        ("q_stride", c_int64),
        ("k_stride", c_int64),
        ("v_stride", c_int64),
        ("cu_seqlens", rvit_view),
        ("key_bias", rvit_view),
        ("out", rvit_view),
        ("out_stride", c_int64),
        ("cls_probs", rvit_view),
        ("lse", rvit_view),
    ]


class rvit_linear_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("out_dtype", c_int),
        ("rows", rvit_rows),
        ("in_features", c_int32),
        ("out_features", c_int32),
        ("activation", c_int),
        ("x", rvit_view),
        ("weight", rvit_view),
        ("bias", rvit_view),
        ("residual", rvit_view),
        ("residual_period", c_int64),
        ("out", rvit_view),
        ("bias_narrow", rvit_view),
    ]


class rvit_layernorm_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("out_dtype", c_int),
        ("rows", rvit_rows),
        ("x_rows", c_int64),
        ("dim", c_int32),
        ("eps", c_float),
        ("x", rvit_view),
        ("src_rows", rvit_view),
        ("gamma", rvit_view),
        ("beta", rvit_view),
        ("out", rvit_view),
        ("out_x", rvit_view),
    ]


class rvit_pack_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", rvit_rows),
        ("source_rows", c_int64),
        ("row_size", c_int64),
        ("source", rvit_view),
        ("src_rows", rvit_view),
        ("destination", rvit_view),
    ]


class rvit_unpack_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("rows", rvit_rows),
        ("destination_rows", rvit_rows),
        ("dim", c_int32),
        ("fill", c_float),
        ("source", rvit_view),
        ("src_rows", rvit_view),
        ("base", rvit_view),
        ("destination", rvit_view),
    ]


class rvit_select_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_int),
        ("score", c_int),
        ("n_images", c_int32),
        ("max_len", c_int32),
        ("rows", c_int64),
        ("n_prefix", c_int32),
        ("prefix_competes", c_int32),
        ("threshold", c_float),
        ("k_min", c_int32),
        ("n_samples", c_int32),
        ("mass", c_double),
        ("dtype", c_int),
        ("dim", c_int32),
        ("n_heads", c_int32),
        ("x_stride", c_int64),
        ("x", rvit_view),
        ("cls_probs", rvit_view),
        ("weight", rvit_view),
        ("bias", rvit_view),
        ("position_scores", rvit_view),
        ("counts", rvit_view),
        ("scores", rvit_view),
        ("keep_in", rvit_view),
        ("cu_seqlens", rvit_view),
        ("fuse_dtype", c_int),
        ("fuse_dim", c_int32),
        ("fuse_x", rvit_view),
        ("keep", rvit_view),
        ("out_cu_seqlens", rvit_view),
        ("src_rows", rvit_view),
        ("error", rvit_view),
        ("error_stays", c_int32),
    ]


class rvit_mean_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("n_images", c_int32),
        ("max_len", c_int32),
        ("rows", c_int64),
        ("n_prefix", c_int32),
        ("dim", c_int32),
        ("first_column", c_int32),
        ("cu_seqlens", rvit_view),
        ("x", rvit_view),
    ]


class rvit_match_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("n_images", c_int32),
        ("max_len", c_int32),
        ("rows", c_int64),
        ("n_prefix", c_int32),
        ("n_heads", c_int32),
        ("head_dim", c_int32),
        ("merges", c_int32),
        ("k_stride", c_int64),
        ("k", rvit_view),
        ("cu_seqlens", rvit_view),
        ("metric", rvit_view),
        ("keep", rvit_view),
        ("out_cu_seqlens", rvit_view),
        ("src_rows", rvit_view),
        ("next_rows", rvit_view),
    ]


class rvit_merge_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("rows", rvit_rows),
        ("x_rows", c_int64),
        ("dim", c_int32),
        ("x", rvit_view),
        ("sizes", rvit_view),
        ("src_rows", rvit_view),
        ("next_rows", rvit_view),
        ("out_x", rvit_view),
        ("out_sizes", rvit_view),
        ("out_key_bias", rvit_view),
    ]


class rvit_prune_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("keep", c_double),
        ("n_blocks", c_int32),
        ("blocks", array(c_int32, 64)),
        ("threshold", c_double),
        ("mass", c_double),
        ("n_samples", c_int32),
        ("merges", c_int32),
        ("seed", c_uint64),
        ("reserved", array(c_int64, 8)),
    ]


class rvit_prune_info(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("parameters", c_int32),
        ("name", c_char_p),
        ("summary", c_char_p),
        ("source", c_char_p),
        ("site", c_char_p),
        ("default_keep", c_double),
        ("n_default_blocks", c_int32),
        ("default_blocks", array(c_int32, 4)),
        ("default_threshold", c_double),
        ("default_mass", c_double),
        ("default_samples", c_int32),
        ("default_merges", c_int32),
    ]


class rvit_patchify_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("n_images", c_int32),
        ("live_images", rvit_view),
        ("channels", c_int32),
        ("image_size", c_int32),
        ("patch_size", c_int32),
        ("n_prefix", c_int32),
        ("images", rvit_view),
        ("out", rvit_view),
        ("cu_seqlens", rvit_view),
    ]


class rvit_head_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
        ("weight_dtype", c_int),
        ("n_images", c_int32),
        ("rows", c_int64),
        ("dim", c_int32),
        ("n_tokens", c_int32),
        ("n_classes", c_int32),
        ("eps", c_float),
        ("x", rvit_view),
        ("cu_seqlens", rvit_view),
        ("gamma", rvit_view),
        ("beta", rvit_view),
        ("weight", rvit_view),
        ("bias", rvit_view),
        ("logits", rvit_view),
    ]


class rvit_model_info(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("architecture", c_char * 64),
        ("family", c_char * 32),
        ("image_size", c_int32),
        ("patch_size", c_int32),
        ("channels", c_int32),
        ("dim", c_int32),
        ("n_heads", c_int32),
        ("head_dim", c_int32),
        ("depth", c_int32),
        ("mlp_dim", c_int32),
        ("n_prefix", c_int32),
        ("tokens", c_int32),
        ("n_classes", c_int32),
        ("eps", c_float),
        ("n_parameters", c_int64),
        ("n_tensors", c_int32),
        ("n_unknown", c_int32),
        ("n_by_dtype", array(c_int32, 3)),
        ("distilled", c_int32),
        ("n_registers", c_int32),
        ("n_predictors", c_int32),
        ("n_files", c_int32),
        ("trained_size", c_int32),
        ("weights_size", c_int64),
    ]


class rvit_checkpoint_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("lenient", c_int32),
        ("allocator", c_void_p),
        ("image_size", c_int32),
        ("resample", c_int),
        ("eps", c_float),
    ]


class rvit_model_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("dtype", c_int),
    ]


class rvit_session_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("max_images", c_int32),
        ("prune", rvit_prune_desc),
        ("trace", c_int32),
        ("outputs", c_int32),
        ("fixed_batch", c_int32),
        ("dense_fallback", c_int32),
        ("stream", c_void_p),
        ("images", rvit_view),
        ("logits", rvit_view),
    ]


class rvit_memory_info(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device_size", c_int64),
        ("upload_size", c_int64),
        ("readback_size", c_int64),
        ("trace_size", c_int64),
        ("host_size", c_int64),
    ]


class rvit_session_info(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("n_stages", c_int32),
        ("fell_back", c_int32),
        ("dense_us", c_double),
        ("pruned_us", c_double),
    ]


class rvit_run_args(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("n_images", c_int32),
        ("images", c_void_p),
        ("keep", c_void_p),
    ]


class rvit_vulkan_device_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("instance", c_void_p),
        ("physical_device", c_void_p),
        ("device", c_void_p),
        ("queue", c_void_p),
        ("queue_family", c_uint32),
        ("api_version", c_uint32),
        ("get_instance_proc_addr", c_void_p),
        ("features", c_void_p),
        ("extensions", c_void_p),
        ("n_extensions", c_uint32),
        ("lock_queue", c_void_p),
        ("unlock_queue", c_void_p),
        ("user", c_void_p),
    ]


class rvit_vulkan_buffer_desc(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("buffer", c_uint64),
        ("buffer_size", c_int64),
        ("usage", c_uint32),
        ("offset", c_int64),
        ("size", c_int64),
    ]


class rvit_vulkan_memory(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("fd", c_int32),
        ("memory_type", c_uint32),
        ("memory_size", c_int64),
        ("offset", c_int64),
    ]


TYPES: dict[str, Any] = {
    "rvit_device_info": rvit_device_info,
    "rvit_allocator": rvit_allocator,
    "rvit_device_desc": rvit_device_desc,
    "rvit_view": rvit_view,
    "rvit_stats": rvit_stats,
    "rvit_copy_args": rvit_copy_args,
    "rvit_rows": rvit_rows,
    "rvit_attention_args": rvit_attention_args,
    "rvit_linear_args": rvit_linear_args,
    "rvit_layernorm_args": rvit_layernorm_args,
    "rvit_pack_args": rvit_pack_args,
    "rvit_unpack_args": rvit_unpack_args,
    "rvit_select_args": rvit_select_args,
    "rvit_mean_args": rvit_mean_args,
    "rvit_match_args": rvit_match_args,
    "rvit_merge_args": rvit_merge_args,
    "rvit_prune_desc": rvit_prune_desc,
    "rvit_prune_info": rvit_prune_info,
    "rvit_patchify_args": rvit_patchify_args,
    "rvit_head_args": rvit_head_args,
    "rvit_model_info": rvit_model_info,
    "rvit_checkpoint_desc": rvit_checkpoint_desc,
    "rvit_model_desc": rvit_model_desc,
    "rvit_session_desc": rvit_session_desc,
    "rvit_memory_info": rvit_memory_info,
    "rvit_session_info": rvit_session_info,
    "rvit_run_args": rvit_run_args,
    "rvit_vulkan_device_desc": rvit_vulkan_device_desc,
    "rvit_vulkan_buffer_desc": rvit_vulkan_buffer_desc,
    "rvit_vulkan_memory": rvit_vulkan_memory,
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "rvit_device_info": {
        "struct_size": sizeof(rvit_device_info),
    },
    "rvit_device_desc": {
        "struct_size": sizeof(rvit_device_desc),
        "index": -1,
    },
    "rvit_stats": {
        "struct_size": sizeof(rvit_stats),
    },
    "rvit_copy_args": {
        "struct_size": sizeof(rvit_copy_args),
    },
    "rvit_attention_args": {
        "struct_size": sizeof(rvit_attention_args),
    },
    "rvit_linear_args": {
        "struct_size": sizeof(rvit_linear_args),
    },
    "rvit_layernorm_args": {
        "struct_size": sizeof(rvit_layernorm_args),
    },
    "rvit_pack_args": {
        "struct_size": sizeof(rvit_pack_args),
    },
    "rvit_unpack_args": {
        "struct_size": sizeof(rvit_unpack_args),
    },
    "rvit_select_args": {
        "struct_size": sizeof(rvit_select_args),
    },
    "rvit_mean_args": {
        "struct_size": sizeof(rvit_mean_args),
    },
    "rvit_match_args": {
        "struct_size": sizeof(rvit_match_args),
    },
    "rvit_merge_args": {
        "struct_size": sizeof(rvit_merge_args),
    },
    "rvit_prune_desc": {
        "struct_size": sizeof(rvit_prune_desc),
        "keep": -1.0,
        "threshold": -1.0,
        "mass": -1.0,
        "merges": -1,
    },
    "rvit_prune_info": {
        "struct_size": sizeof(rvit_prune_info),
    },
    "rvit_patchify_args": {
        "struct_size": sizeof(rvit_patchify_args),
    },
    "rvit_head_args": {
        "struct_size": sizeof(rvit_head_args),
    },
    "rvit_model_info": {
        "struct_size": sizeof(rvit_model_info),
    },
    "rvit_checkpoint_desc": {
        "struct_size": sizeof(rvit_checkpoint_desc),
    },
    "rvit_model_desc": {
        "struct_size": sizeof(rvit_model_desc),
    },
    "rvit_session_desc": {
        "struct_size": sizeof(rvit_session_desc),
        "max_images": 1,
        "prune": {"struct_size": sizeof(rvit_prune_desc), "keep": -1.0, "threshold": -1.0, "mass": -1.0, "merges": -1},
    },
    "rvit_memory_info": {
        "struct_size": sizeof(rvit_memory_info),
    },
    "rvit_session_info": {
        "struct_size": sizeof(rvit_session_info),
    },
    "rvit_run_args": {
        "struct_size": sizeof(rvit_run_args),
    },
    "rvit_vulkan_device_desc": {
        "struct_size": sizeof(rvit_vulkan_device_desc),
    },
    "rvit_vulkan_buffer_desc": {
        "struct_size": sizeof(rvit_vulkan_buffer_desc),
    },
    "rvit_vulkan_memory": {
        "struct_size": sizeof(rvit_vulkan_memory),
    },
}

# name: (result, arguments, whether the result is an rvit_status)
FUNCTIONS: dict[str, tuple[Any, list[Any], bool]] = {
    "rvit_status_name": (c_char_p, [c_int], False),
    "rvit_status_detail": (c_char_p, [], False),
    "rvit_version": (c_char_p, [], False),
    "rvit_log_set": (None, [c_void_p, c_void_p], False),
    "rvit_log_stderr": (None, [c_void_p, c_int, c_char_p], False),
    "rvit_backend_name": (c_char_p, [c_int], False),
    "rvit_device_list": (c_int, [c_void_p, c_int32, c_void_p], True),
    "rvit_device_create": (c_int, [c_void_p, c_void_p], True),
    "rvit_device_destroy": (None, [c_void_p], False),
    "rvit_device_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_device_get_cache": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p], True),
    "rvit_buffer_create": (c_int, [c_void_p, c_int64, c_int, c_void_p], True),
    "rvit_buffer_destroy": (None, [c_void_p], False),
    "rvit_buffer_host": (c_void_p, [c_void_p], False),
    "rvit_buffer_size": (c_int64, [c_void_p], False),
    "rvit_stream_create": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_destroy": (None, [c_void_p], False),
    "rvit_stream_synchronize": (c_int, [c_void_p], True),
    "rvit_stream_get_stats": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_write": (c_int, [c_void_p, rvit_view, c_void_p, c_int64], True),
    "rvit_stream_read": (c_int, [c_void_p, rvit_view, c_void_p, c_int64], True),
    "rvit_copy": (c_int, [c_void_p, c_void_p], True),
    "rvit_record_begin": (c_int, [c_void_p], True),
    "rvit_record_end": (c_int, [c_void_p, c_void_p], True),
    "rvit_program_launch": (c_int, [c_void_p, c_void_p], True),
    "rvit_program_destroy": (None, [c_void_p], False),
    "rvit_dtype_size": (c_int64, [c_int], False),
    "rvit_dtype_name": (c_char_p, [c_int], False),
    "rvit_attention": (c_int, [c_void_p, c_void_p], True),
    "rvit_linear": (c_int, [c_void_p, c_void_p], True),
    "rvit_layernorm": (c_int, [c_void_p, c_void_p], True),
    "rvit_pack": (c_int, [c_void_p, c_void_p], True),
    "rvit_unpack": (c_int, [c_void_p, c_void_p], True),
    "rvit_cu_seqlens_check": (c_int, [c_void_p, c_int32, c_int32, c_int64], True),
    "rvit_layout_from_mask": (c_int, [c_void_p, c_int32, c_int32, c_int32, c_void_p, c_void_p], True),
    "rvit_select": (c_int, [c_void_p, c_void_p], True),
    "rvit_mean": (c_int, [c_void_p, c_void_p], True),
    "rvit_match": (c_int, [c_void_p, c_void_p], True),
    "rvit_merge": (c_int, [c_void_p, c_void_p], True),
    "rvit_count_table": (c_int, [c_int, c_double, c_int32, c_int32, c_void_p], True),
    "rvit_prune_list": (c_int, [c_int32, c_void_p], True),
    "rvit_prune_from_name": (c_int, [c_char_p, c_void_p], True),
    "rvit_patchify": (c_int, [c_void_p, c_void_p], True),
    "rvit_head": (c_int, [c_void_p, c_void_p], True),
    "rvit_checkpoint_open": (c_int, [c_char_p, c_void_p, c_void_p], True),
    "rvit_checkpoint_destroy": (None, [c_void_p], False),
    "rvit_checkpoint_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_checkpoint_tensor": (c_int, [c_void_p, c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p], True),
    "rvit_checkpoint_metadata": (c_char_p, [c_void_p, c_char_p], False),
    "rvit_model_create": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p], True),
    "rvit_model_destroy": (None, [c_void_p], False),
    "rvit_model_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_memory": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_destroy": (None, [c_void_p], False),
    "rvit_session_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_enqueue": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_wait": (c_int, [c_void_p], True),
    "rvit_session_run": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_input": (c_void_p, [c_void_p], False),
    "rvit_session_logits": (c_void_p, [c_void_p], False),
    "rvit_session_n_stages": (c_int32, [c_void_p], False),
    "rvit_session_cu_seqlens": (c_void_p, [c_void_p, c_int32], False),
    "rvit_session_kept": (c_void_p, [c_void_p, c_int32, c_int32], False),
    "rvit_session_sizes": (c_void_p, [c_void_p, c_int32, c_int32], False),
    "rvit_session_mask": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_session_features": (c_void_p, [c_void_p], False),
    "rvit_session_grid": (c_int, [c_void_p, c_int32, c_float, c_void_p], True),
    "rvit_session_cls_attention": (c_void_p, [c_void_p, c_void_p], False),
    "rvit_session_get_stats": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_get_select": (c_int, [c_void_p, c_int32, c_void_p], True),
    "rvit_session_counts": (c_void_p, [c_void_p, c_int32], False),
    "rvit_session_trace": (c_int, [c_void_p, c_int, c_int32, c_void_p, c_void_p, c_void_p], True),
    "rvit_cuda_device_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_cuda_device_context": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_stream_wrap": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_cuda_stream_set": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_stream_handle": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_buffer_wrap": (c_int, [c_void_p, c_uint64, c_int64, c_void_p], True),
    "rvit_cuda_buffer_set": (c_int, [c_void_p, c_uint64, c_int64], True),
    "rvit_cuda_buffer_address": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_buffer_import": (c_int, [c_void_p, c_int32, c_int64, c_int64, c_int64, c_void_p], True),
    "rvit_cuda_semaphore_import": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_cuda_semaphore_destroy": (None, [c_void_p], False),
    "rvit_cuda_stream_wait": (c_int, [c_void_p, c_void_p, c_uint64], True),
    "rvit_cuda_stream_signal": (c_int, [c_void_p, c_void_p, c_uint64], True),
    "rvit_vulkan_device_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_vulkan_stream_wrap": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_vulkan_stream_set": (c_int, [c_void_p, c_void_p], True),
    "rvit_vulkan_buffer_wrap": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_vulkan_buffer_handle": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_vulkan_buffer_create_shared": (c_int, [c_void_p, c_int64, c_void_p], True),
    "rvit_vulkan_buffer_export": (c_int, [c_void_p, c_void_p], True),
    "rvit_vulkan_buffer_import": (c_int, [c_void_p, c_void_p, c_int64, c_void_p], True),
    "rvit_vulkan_semaphore_create": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_vulkan_semaphore_wrap": (c_int, [c_void_p, c_uint64, c_int32, c_void_p], True),
    "rvit_vulkan_semaphore_import": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_vulkan_semaphore_export": (c_int, [c_void_p, c_void_p], True),
    "rvit_vulkan_semaphore_handle": (c_int, [c_void_p, c_void_p], True),
    "rvit_vulkan_semaphore_destroy": (None, [c_void_p], False),
    "rvit_vulkan_stream_wait": (c_int, [c_void_p, c_void_p, c_uint64], True),
    "rvit_vulkan_stream_signal": (c_int, [c_void_p, c_void_p, c_uint64], True),
}


def new(name: str, **values: Any) -> Any:
    """A struct as its RVIT_..._INIT makes it, then the fields given."""
    struct = TYPES[name]()
    fill(struct, DEFAULTS.get(name, {}))
    fill(struct, values)
    return struct
