"""Structs and functions of raggedvit's C API. Written by python/generate_layouts.py; do not edit."""

from __future__ import annotations

from ctypes import c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_uint32, c_uint64, c_uint8, c_void_p, sizeof
from typing import Any

from .structs import Struct, array, fill


class rvit_device_info(Struct):  # 600 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("backend", c_int),  # 8
        ("index", c_int32),  # 12
        ("is_software", c_int32),  # 16
        ("tier", c_int),  # 20
        ("memory_size", c_int64),  # 24
        ("uuid", array(c_uint8, 16)),  # 32
        ("name", c_char * 128),  # 48
        ("driver", c_char * 128),  # 176
        ("note", c_char * 256),  # 304
        ("native_dtypes", c_int32),  # 560
        ("kind", c_int),  # 564
        ("memory_free", c_int64),  # 568
        ("pci_address", c_char * 24),  # 576
    ]


class rvit_allocator(Struct):  # 24 bytes
    _fields_ = [
        ("user", c_void_p),  # 0
        ("allocate", c_void_p),  # 8
        ("release", c_void_p),  # 16
    ]


class rvit_device_desc(Struct):  # 88 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("backend", c_int),  # 8
        ("index", c_int32),  # 12
        ("tier", c_int),  # 16
        ("n_threads", c_int32),  # 20
        ("oracle", c_int32),  # 24
        ("debug_checks", c_int32),  # 28
        ("allocator", c_void_p),  # 32
        ("vector_bits", c_int32),  # 40
        ("skip_self_test", c_int32),  # 44
        ("cache_data", c_void_p),  # 48
        ("cache_size", c_size_t),  # 56
        ("submit_work", c_int64),  # 64
        ("poll_us", c_int32),  # 72
        ("kernels", c_char_p),  # 80
    ]


class rvit_external_memory(Struct):  # 40 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("handle_type", c_int),  # 8
        ("memory_type", c_uint32),  # 12
        ("handle", c_ssize_t),  # 16
        ("size", c_int64),  # 24
        ("offset", c_int64),  # 32
    ]


class rvit_memory_desc(Struct):  # 64 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("type", c_int),  # 8
        ("vk_usage", c_uint32),  # 12
        ("size", c_int64),  # 16
        ("address", c_void_p),  # 24
        ("vk_buffer", c_uint64),  # 32
        ("vk_buffer_size", c_int64),  # 40
        ("offset", c_int64),  # 48
        ("external", c_void_p),  # 56
    ]


class rvit_view(Struct):  # 16 bytes
    _fields_ = [
        ("buffer", c_void_p),  # 0
        ("offset", c_int64),  # 8
    ]


class rvit_stats(Struct):  # 96 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("launches", c_int64),  # 8
        ("submits", c_int64),  # 16
        ("synchronizations", c_int64),  # 24
        ("copies", c_int64),  # 32
        ("host_allocations", c_int64),  # 40
        ("device_allocations", c_int64),  # 48
        ("device_size", c_int64),  # 56
        ("upload_size", c_int64),  # 64
        ("readback_size", c_int64),  # 72
        ("working_size", c_int64),  # 80
        ("saturated", c_int64),  # 88
    ]


class rvit_copy_args(Struct):  # 48 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("source", rvit_view),  # 8
        ("destination", rvit_view),  # 24
        ("size", c_int64),  # 40
    ]


class rvit_semaphore_desc(Struct):  # 40 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("timeline", c_int32),  # 8
        ("shared", c_int32),  # 12
        ("vk_semaphore", c_uint64),  # 16
        ("handle_type", c_int),  # 24
        ("handle", c_ssize_t),  # 32
    ]


class rvit_rows(Struct):  # 32 bytes
    _fields_ = [
        ("capacity", c_int64),  # 0
        ("live", rvit_view),  # 8
        ("padded", c_int32),  # 24
    ]


class rvit_attention_args(Struct):  # 208 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("n_heads", c_int32),  # 16
        ("head_dim", c_int32),  # 20
        ("max_len", c_int32),  # 24
        ("rows", c_int64),  # 32
        ("scale", c_float),  # 40
        ("q", rvit_view),  # 48
        ("k", rvit_view),  # 64
        ("v", rvit_view),  # 80
        ("q_stride", c_int64),  # 96
        ("k_stride", c_int64),  # 104
        ("v_stride", c_int64),  # 112
        ("cu_seqlens", rvit_view),  # 120
        ("key_bias", rvit_view),  # 136
        ("out", rvit_view),  # 152
        ("out_stride", c_int64),  # 168
        ("cls_probs", rvit_view),  # 176
        ("lse", rvit_view),  # 192
    ]


class rvit_attention_backward_args(Struct):  # 368 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("n_heads", c_int32),  # 16
        ("head_dim", c_int32),  # 20
        ("max_len", c_int32),  # 24
        ("rows", c_int64),  # 32
        ("scale", c_float),  # 40
        ("q", rvit_view),  # 48
        ("k", rvit_view),  # 64
        ("v", rvit_view),  # 80
        ("q_stride", c_int64),  # 96
        ("k_stride", c_int64),  # 104
        ("v_stride", c_int64),  # 112
        ("cu_seqlens", rvit_view),  # 120
        ("key_bias", rvit_view),  # 136
        ("out", rvit_view),  # 152
        ("out_stride", c_int64),  # 168
        ("lse", rvit_view),  # 176
        ("d_out", rvit_view),  # 192
        ("d_out_stride", c_int64),  # 208
        ("cls_probs", rvit_view),  # 216
        ("d_cls_probs", rvit_view),  # 232
        ("d_lse", rvit_view),  # 248
        ("d_q", rvit_view),  # 264
        ("d_k", rvit_view),  # 280
        ("d_v", rvit_view),  # 296
        ("d_q_stride", c_int64),  # 312
        ("d_k_stride", c_int64),  # 320
        ("d_v_stride", c_int64),  # 328
        ("d_key_bias", rvit_view),  # 336
        ("workspace", rvit_view),  # 352
    ]


class rvit_attention_received_args(Struct):  # 160 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("n_heads", c_int32),  # 16
        ("head_dim", c_int32),  # 20
        ("max_len", c_int32),  # 24
        ("rows", c_int64),  # 32
        ("scale", c_float),  # 40
        ("q", rvit_view),  # 48
        ("k", rvit_view),  # 64
        ("q_stride", c_int64),  # 80
        ("k_stride", c_int64),  # 88
        ("cu_seqlens", rvit_view),  # 96
        ("key_bias", rvit_view),  # 112
        ("lse", rvit_view),  # 128
        ("out", rvit_view),  # 144
    ]


class rvit_rope_args(Struct):  # 144 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("rows", rvit_rows),  # 16
        ("n_heads", c_int32),  # 48
        ("head_dim", c_int32),  # 52
        ("n_positions", c_int32),  # 56
        ("n_prefix", c_int32),  # 60
        ("q", rvit_view),  # 64
        ("k", rvit_view),  # 80
        ("q_stride", c_int64),  # 96
        ("k_stride", c_int64),  # 104
        ("table", rvit_view),  # 112
        ("positions", rvit_view),  # 128
    ]


class rvit_linear_args(Struct):  # 240 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("out_dtype", c_int),  # 12
        ("rows", rvit_rows),  # 16
        ("in_features", c_int32),  # 48
        ("out_features", c_int32),  # 52
        ("activation", c_int),  # 56
        ("x", rvit_view),  # 64
        ("weight", rvit_view),  # 80
        ("bias", rvit_view),  # 96
        ("residual", rvit_view),  # 112
        ("residual_period", c_int64),  # 128
        ("out", rvit_view),  # 136
        ("gated", c_int32),  # 152
        ("x_scales", rvit_view),  # 160
        ("weight_scales", rvit_view),  # 176
        ("static_scale", rvit_view),  # 192
        ("out_scales", rvit_view),  # 208
        ("saturated", rvit_view),  # 224
    ]


class rvit_layernorm_args(Struct):  # 216 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("out_dtype", c_int),  # 12
        ("rows", rvit_rows),  # 16
        ("x_rows", c_int64),  # 48
        ("dim", c_int32),  # 56
        ("eps", c_float),  # 60
        ("x", rvit_view),  # 64
        ("src_rows", rvit_view),  # 80
        ("gamma", rvit_view),  # 96
        ("beta", rvit_view),  # 112
        ("out", rvit_view),  # 128
        ("out_x", rvit_view),  # 144
        ("norm", c_int),  # 160
        ("features", c_int32),  # 164
        ("out_scales", rvit_view),  # 168
        ("static_scale", rvit_view),  # 184
        ("saturated", rvit_view),  # 200
    ]


class rvit_quantize_args(Struct):  # 160 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("out_dtype", c_int),  # 12
        ("rows", rvit_rows),  # 16
        ("columns", c_int32),  # 48
        ("activation", c_int),  # 52
        ("gated", c_int32),  # 56
        ("x", rvit_view),  # 64
        ("bias", rvit_view),  # 80
        ("static_scale", rvit_view),  # 96
        ("out", rvit_view),  # 112
        ("out_scales", rvit_view),  # 128
        ("saturated", rvit_view),  # 144
    ]


class rvit_pack_args(Struct):  # 104 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("rows", rvit_rows),  # 8
        ("source_rows", c_int64),  # 40
        ("row_size", c_int64),  # 48
        ("source", rvit_view),  # 56
        ("src_rows", rvit_view),  # 72
        ("destination", rvit_view),  # 88
    ]


class rvit_unpack_args(Struct):  # 152 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("rows", rvit_rows),  # 16
        ("destination_rows", rvit_rows),  # 48
        ("dim", c_int32),  # 80
        ("fill", c_float),  # 84
        ("source", rvit_view),  # 88
        ("src_rows", rvit_view),  # 104
        ("base", rvit_view),  # 120
        ("destination", rvit_view),  # 136
    ]


class rvit_grid_layout_args(Struct):  # 184 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_images", c_int32),  # 8
        ("n_prefix", c_int32),  # 12
        ("max_len", c_int32),  # 16
        ("merge", c_int32),  # 20
        ("rows", c_int64),  # 24
        ("patch_rows", c_int64),  # 32
        ("live_images", rvit_view),  # 40
        ("grids", rvit_view),  # 56
        ("cu_seqlens", rvit_view),  # 72
        ("patch_cu_seqlens", rvit_view),  # 88
        ("token_map", rvit_view),  # 104
        ("patch_merge", c_int32),  # 120
        ("window", c_int32),  # 124
        ("max_windows", c_int32),  # 128
        ("group_cu_seqlens", rvit_view),  # 136
        ("window_cu_seqlens", rvit_view),  # 152
        ("group_rows", rvit_view),  # 168
    ]


class rvit_embed_args(Struct):  # 160 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("rows", rvit_rows),  # 16
        ("patch_rows", c_int64),  # 48
        ("dim", c_int32),  # 56
        ("n_prefix", c_int32),  # 60
        ("resample", c_int),  # 64
        ("table_height", c_int32),  # 68
        ("table_width", c_int32),  # 72
        ("token_map", rvit_view),  # 80
        ("patches", rvit_view),  # 96
        ("prefix", rvit_view),  # 112
        ("table", rvit_view),  # 128
        ("out", rvit_view),  # 144
    ]


class rvit_grid_rope_args(Struct):  # 112 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("rows", rvit_rows),  # 8
        ("head_dim", c_int32),  # 40
        ("coordinates", c_int),  # 44
        ("order", c_int),  # 48
        ("offset", c_float),  # 52
        ("reference_height", c_float),  # 56
        ("reference_width", c_float),  # 60
        ("token_map", rvit_view),  # 64
        ("frequencies", rvit_view),  # 80
        ("out", rvit_view),  # 96
    ]


class rvit_pool_args(Struct):  # 160 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("out_dtype", c_int),  # 12
        ("mode", c_int),  # 16
        ("n_images", c_int32),  # 20
        ("max_len", c_int32),  # 24
        ("n_prefix", c_int32),  # 28
        ("rows", c_int64),  # 32
        ("dim", c_int32),  # 40
        ("norm", c_int),  # 44
        ("eps", c_float),  # 48
        ("x", rvit_view),  # 56
        ("cu_seqlens", rvit_view),  # 72
        ("sizes", rvit_view),  # 88
        ("gamma", rvit_view),  # 104
        ("beta", rvit_view),  # 120
        ("out", rvit_view),  # 136
        ("out_stride", c_int64),  # 152
    ]


class rvit_attention_pool_args(Struct):  # 184 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("out_dtype", c_int),  # 12
        ("n_images", c_int32),  # 16
        ("n_heads", c_int32),  # 20
        ("head_dim", c_int32),  # 24
        ("max_len", c_int32),  # 28
        ("rows", c_int64),  # 32
        ("dim", c_int32),  # 40
        ("x", rvit_view),  # 48
        ("logits", rvit_view),  # 64
        ("logits_stride", c_int64),  # 80
        ("sizes", rvit_view),  # 88
        ("cu_seqlens", rvit_view),  # 104
        ("weight", rvit_view),  # 120
        ("bias", rvit_view),  # 136
        ("out", rvit_view),  # 152
        ("probs", rvit_view),  # 168
    ]


class rvit_head_args(Struct):  # 168 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("weight_dtype", c_int),  # 12
        ("n_images", c_int32),  # 16
        ("rows", c_int64),  # 24
        ("dim", c_int32),  # 32
        ("n_tokens", c_int32),  # 36
        ("n_classes", c_int32),  # 40
        ("eps", c_float),  # 44
        ("x", rvit_view),  # 48
        ("cu_seqlens", rvit_view),  # 64
        ("gamma", rvit_view),  # 80
        ("beta", rvit_view),  # 96
        ("weight", rvit_view),  # 112
        ("bias", rvit_view),  # 128
        ("logits", rvit_view),  # 144
        ("norm", c_int),  # 160
    ]


class rvit_image(Struct):  # 88 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("data", c_void_p),  # 8
        ("view", rvit_view),  # 16
        ("width", c_int32),  # 32
        ("height", c_int32),  # 36
        ("stride", c_int64),  # 40
        ("format", c_int),  # 48
        ("matrix", c_int),  # 52
        ("full_range", c_int32),  # 56
        ("plane_offset", c_int64),  # 64
        ("target_width", c_int32),  # 72
        ("target_height", c_int32),  # 76
        ("original_width", c_int32),  # 80
        ("original_height", c_int32),  # 84
    ]


class rvit_image_recipe(Struct):  # 112 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("fit", c_int),  # 8
        ("filter", c_int),  # 12
        ("processor", c_int),  # 16
        ("height", c_int32),  # 20
        ("width", c_int32),  # 24
        ("resize_height", c_int32),  # 28
        ("resize_width", c_int32),  # 32
        ("mean", array(c_float, 3)),  # 36
        ("std", array(c_float, 3)),  # 48
        ("fill", array(c_int32, 3)),  # 60
        ("patch_size", c_int32),  # 72
        ("merge", c_int32),  # 76
        ("max_patches", c_int32),  # 80
        ("min_pixels", c_int64),  # 88
        ("max_pixels", c_int64),  # 96
        ("processor_height", c_int32),  # 104
        ("processor_width", c_int32),  # 108
    ]


class rvit_image_geometry(Struct):  # 48 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("width", c_int64),  # 8
        ("height", c_int64),  # 16
        ("left", c_int64),  # 24
        ("top", c_int64),  # 32
        ("target_width", c_int32),  # 40
        ("target_height", c_int32),  # 44
    ]


class rvit_images_args(Struct):  # 80 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("recipe", c_void_p),  # 8
        ("images", c_void_p),  # 16
        ("n_images", c_int32),  # 24
        ("max_images", c_int32),  # 28
        ("max_rows", c_int64),  # 32
        ("patch_size", c_int32),  # 40
        ("n_prefix", c_int32),  # 44
        ("pixels", rvit_view),  # 48
        ("pixels_size", c_int64),  # 64
        ("one_target", c_int32),  # 72
    ]


class rvit_patchify_args(Struct):  # 120 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("live_images", rvit_view),  # 16
        ("channels", c_int32),  # 32
        ("image_size", c_int32),  # 36
        ("patch_size", c_int32),  # 40
        ("n_prefix", c_int32),  # 44
        ("images", rvit_view),  # 48
        ("out", rvit_view),  # 64
        ("cu_seqlens", rvit_view),  # 80
        ("image_height", c_int32),  # 96
        ("image_width", c_int32),  # 100
        ("crop", c_int32),  # 104
        ("out_stride", c_int32),  # 108
        ("split", c_int32),  # 112
    ]


class rvit_preprocess_args(Struct):  # 152 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("rows", c_int64),  # 16
        ("patch_size", c_int32),  # 24
        ("out_stride", c_int32),  # 28
        ("source", rvit_view),  # 32
        ("source_size", c_int64),  # 48
        ("pixels", rvit_view),  # 56
        ("pixels_size", c_int64),  # 72
        ("staging", rvit_view),  # 80
        ("out", rvit_view),  # 96
        ("cu_seqlens", rvit_view),  # 112
        ("grids", rvit_view),  # 128
        ("split", c_int32),  # 144
    ]


class rvit_select_args(Struct):  # 352 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("mode", c_int),  # 8
        ("score", c_int),  # 12
        ("n_images", c_int32),  # 16
        ("max_len", c_int32),  # 20
        ("rows", c_int64),  # 24
        ("n_prefix", c_int32),  # 32
        ("prefix_competes", c_int32),  # 36
        ("threshold", c_float),  # 40
        ("k_min", c_int32),  # 44
        ("n_samples", c_int32),  # 48
        ("mass", c_double),  # 56
        ("dtype", c_int),  # 64
        ("dim", c_int32),  # 68
        ("n_heads", c_int32),  # 72
        ("x_stride", c_int64),  # 80
        ("x", rvit_view),  # 88
        ("cls_probs", rvit_view),  # 104
        ("weight", rvit_view),  # 120
        ("bias", rvit_view),  # 136
        ("position_scores", rvit_view),  # 152
        ("counts", rvit_view),  # 168
        ("scores", rvit_view),  # 184
        ("keep_in", rvit_view),  # 200
        ("cu_seqlens", rvit_view),  # 216
        ("fuse_dtype", c_int),  # 232
        ("fuse_dim", c_int32),  # 236
        ("fuse_x", rvit_view),  # 240
        ("keep", rvit_view),  # 256
        ("out_cu_seqlens", rvit_view),  # 272
        ("src_rows", rvit_view),  # 288
        ("error", rvit_view),  # 304
        ("error_stays", c_int32),  # 320
        ("anchor_columns", c_int32),  # 324
        ("anchors", rvit_view),  # 328
        ("group_size", c_int32),  # 344
        ("image_errors", c_int32),  # 348
    ]


class rvit_grid_relayout_args(Struct):  # 176 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_images", c_int32),  # 8
        ("n_windows", c_int32),  # 12
        ("max_len", c_int32),  # 16
        ("group_size", c_int32),  # 20
        ("rows", c_int64),  # 24
        ("cu_seqlens", rvit_view),  # 32
        ("out_cu_seqlens", rvit_view),  # 48
        ("src_rows", rvit_view),  # 64
        ("keep", rvit_view),  # 80
        ("window_cu_seqlens", rvit_view),  # 96
        ("group_rows", rvit_view),  # 112
        ("group_cu_seqlens", rvit_view),  # 128
        ("out_window_cu_seqlens", rvit_view),  # 144
        ("out_group_rows", rvit_view),  # 160
    ]


class rvit_mean_args(Struct):  # 80 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("max_len", c_int32),  # 16
        ("rows", c_int64),  # 24
        ("n_prefix", c_int32),  # 32
        ("dim", c_int32),  # 36
        ("first_column", c_int32),  # 40
        ("cu_seqlens", rvit_view),  # 48
        ("x", rvit_view),  # 64
    ]


class rvit_bipartite_match_args(Struct):  # 192 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("n_images", c_int32),  # 12
        ("max_len", c_int32),  # 16
        ("rows", c_int64),  # 24
        ("n_prefix", c_int32),  # 32
        ("n_heads", c_int32),  # 36
        ("head_dim", c_int32),  # 40
        ("merges", c_int32),  # 44
        ("k_stride", c_int64),  # 48
        ("k", rvit_view),  # 56
        ("cu_seqlens", rvit_view),  # 72
        ("metric", rvit_view),  # 88
        ("keep", rvit_view),  # 104
        ("out_cu_seqlens", rvit_view),  # 120
        ("src_rows", rvit_view),  # 136
        ("next_rows", rvit_view),  # 152
        ("group_size", c_int32),  # 168
        ("n_windows", c_int32),  # 172
        ("window_cu_seqlens", rvit_view),  # 176
    ]


class rvit_merge_args(Struct):  # 176 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("rows", rvit_rows),  # 16
        ("x_rows", c_int64),  # 48
        ("dim", c_int32),  # 56
        ("x", rvit_view),  # 64
        ("sizes", rvit_view),  # 80
        ("src_rows", rvit_view),  # 96
        ("next_rows", rvit_view),  # 112
        ("out_x", rvit_view),  # 128
        ("out_sizes", rvit_view),  # 144
        ("out_key_bias", rvit_view),  # 160
    ]


class rvit_positions_args(Struct):  # 120 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("rows", rvit_rows),  # 8
        ("source_rows", c_int64),  # 40
        ("n_positions", c_int32),  # 48
        ("src_rows", rvit_view),  # 56
        ("keep", rvit_view),  # 72
        ("positions", rvit_view),  # 88
        ("out", rvit_view),  # 104
    ]


class rvit_pixelprune_args(Struct):  # 184 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_images", c_int32),  # 8
        ("n_prefix", c_int32),  # 12
        ("max_len", c_int32),  # 16
        ("merge", c_int32),  # 20
        ("rows", c_int64),  # 24
        ("patch_rows", c_int64),  # 32
        ("columns", c_int32),  # 40
        ("channels", c_int32),  # 44
        ("interleaved", c_int32),  # 48
        ("limits", array(c_float, 4)),  # 52
        ("stride", c_int64),  # 72
        ("cu_seqlens", rvit_view),  # 80
        ("token_map", rvit_view),  # 96
        ("pixels", rvit_view),  # 112
        ("keep", rvit_view),  # 128
        ("sources", rvit_view),  # 144
        ("patch_merge", c_int32),  # 160
        ("group_rows", rvit_view),  # 168
    ]


class rvit_prune_desc(Struct):  # 336 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("type", c_int),  # 8
        ("n_blocks", c_int32),  # 12
        ("blocks", array(c_int32, 64)),  # 16
        ("keep", c_double),  # 272
        ("threshold", c_double),  # 280
        ("mass", c_double),  # 288
        ("alpha", c_double),  # 296
        ("object_block", c_int32),  # 304
        ("merges", c_int32),  # 308
        ("n_samples", c_int32),  # 312
        ("seed", c_uint64),  # 320
        ("tau", c_double),  # 328
    ]


class rvit_prune_info(Struct):  # 128 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("type", c_int),  # 8
        ("parameters", c_int32),  # 12
        ("name", c_char_p),  # 16
        ("summary", c_char_p),  # 24
        ("source", c_char_p),  # 32
        ("site", c_char_p),  # 40
        ("default_keep", c_double),  # 48
        ("n_default_blocks", c_int32),  # 56
        ("default_blocks", array(c_int32, 4)),  # 60
        ("default_threshold", c_double),  # 80
        ("default_mass", c_double),  # 88
        ("default_samples", c_int32),  # 96
        ("default_merges", c_int32),  # 100
        ("default_alpha", c_double),  # 104
        ("default_object_part", c_double),  # 112
        ("default_tau", c_double),  # 120
    ]


class rvit_tensor_info(Struct):  # 56 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("name", c_char_p),  # 8
        ("dtype", c_char_p),  # 16
        ("shape", c_void_p),  # 24
        ("size", c_int64),  # 32
        ("rank", c_int32),  # 40
        ("used", c_int32),  # 44
        ("block", c_int32),  # 48
        ("layer", c_int),  # 52
    ]


class rvit_precision_choice(Struct):  # 280 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("precision", c_int),  # 8
        ("dtype", c_int),  # 12
        ("quantization", c_int),  # 16
        ("reason", c_char * 256),  # 20
    ]


class rvit_model_info(Struct):  # 240 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("architecture", c_char * 64),  # 8
        ("family", c_char * 32),  # 72
        ("image_size", c_int32),  # 104
        ("image_height", c_int32),  # 108
        ("image_width", c_int32),  # 112
        ("patch_size", c_int32),  # 116
        ("channels", c_int32),  # 120
        ("dim", c_int32),  # 124
        ("n_heads", c_int32),  # 128
        ("head_dim", c_int32),  # 132
        ("depth", c_int32),  # 136
        ("mlp_dim", c_int32),  # 140
        ("n_prefix", c_int32),  # 144
        ("n_registers", c_int32),  # 148
        ("tokens", c_int32),  # 152
        ("n_classes", c_int32),  # 156
        ("distilled", c_int32),  # 160
        ("embedding_dim", c_int32),  # 164
        ("eps", c_float),  # 168
        ("activation", c_int),  # 172
        ("gated", c_int32),  # 176
        ("rms_norm", c_int32),  # 180
        ("norm_pre", c_int32),  # 184
        ("final_norm", c_int32),  # 188
        ("pooling", c_int),  # 192
        ("position", c_int),  # 196
        ("resample", c_int),  # 200
        ("merge", c_int32),  # 204
        ("merged_dim", c_int32),  # 208
        ("n_deepstack", c_int32),  # 212
        ("window", c_int32),  # 216
        ("patch_frames", c_int32),  # 220
        ("quantization", c_int),  # 224
        ("weights_size", c_int64),  # 232
    ]


class rvit_checkpoint_fact(Struct):  # 24 bytes
    _fields_ = [
        ("name", c_char_p),  # 0
        ("value", c_char_p),  # 8
        ("origin", c_char_p),  # 16
    ]


class rvit_checkpoint_info(Struct):  # 88 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_parameters", c_int64),  # 8
        ("n_tensors", c_int32),  # 16
        ("n_unknown", c_int32),  # 20
        ("n_by_dtype", array(c_int32, 3)),  # 24
        ("n_files", c_int32),  # 36
        ("n_predictors", c_int32),  # 40
        ("trained_size", c_int32),  # 44
        ("tensors", c_void_p),  # 48
        ("unsupported", c_char_p),  # 56
        ("facts", c_void_p),  # 64
        ("class_names", c_void_p),  # 72
        ("n_facts", c_int32),  # 80
        ("n_class_names", c_int32),  # 84
    ]


class rvit_tensor_desc(Struct):  # 40 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("name", c_char_p),  # 8
        ("dtype", c_int),  # 16
        ("rank", c_int32),  # 20
        ("shape", c_void_p),  # 24
        ("data", c_void_p),  # 32
    ]


class rvit_checkpoint_desc(Struct):  # 96 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("lenient", c_int32),  # 8
        ("allocator", c_void_p),  # 16
        ("image_size", c_int32),  # 24
        ("resample", c_int),  # 28
        ("eps", c_float),  # 32
        ("n_heads", c_int32),  # 36
        ("activation", c_int),  # 40
        ("pooling", c_int),  # 44
        ("position", c_int),  # 48
        ("architecture", c_char_p),  # 56
        ("describe", c_int32),  # 64
        ("config", c_char_p),  # 72
        ("tensors", c_void_p),  # 80
        ("n_tensors", c_int32),  # 88
    ]


class rvit_model_desc(Struct):  # 16 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("dtype", c_int),  # 8
        ("quantization", c_int),  # 12
    ]


class rvit_session_desc(Struct):  # 160 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("max_images", c_int32),  # 8
        ("features_block", c_int32),  # 12
        ("received_block", c_int32),  # 16
        ("outputs", c_int32),  # 20
        ("prune", c_void_p),  # 24
        ("stream", c_void_p),  # 32
        ("input", c_int),  # 40
        ("input_memory", c_int),  # 44
        ("input_view", rvit_view),  # 48
        ("input_bytes", c_int64),  # 64
        ("recipe", c_void_p),  # 72
        ("variable_resolution", c_int32),  # 80
        ("max_len", c_int32),  # 84
        ("max_tokens", c_int32),  # 88
        ("fixed_batch", c_int32),  # 92
        ("dense_fallback", c_int32),  # 96
        ("logits", rvit_view),  # 104
        ("merged", rvit_view),  # 120
        ("deepstack", rvit_view),  # 136
        ("trace", c_int32),  # 152
    ]


class rvit_memory_info(Struct):  # 48 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("device_size", c_int64),  # 8
        ("upload_size", c_int64),  # 16
        ("readback_size", c_int64),  # 24
        ("trace_size", c_int64),  # 32
        ("host_size", c_int64),  # 40
    ]


class rvit_session_info(Struct):  # 32 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_stages", c_int32),  # 8
        ("fell_back", c_int32),  # 12
        ("dense_us", c_double),  # 16
        ("pruned_us", c_double),  # 24
    ]


class rvit_input(Struct):  # 40 bytes
    _fields_ = [
        ("kind", c_int),  # 0
        ("data", c_void_p),  # 8
        ("grids", c_void_p),  # 16
        ("view", rvit_view),  # 24
    ]


class rvit_run_args(Struct):  # 80 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("n_images", c_int32),  # 8
        ("input", rvit_input),  # 16
        ("keep", c_void_p),  # 56
        ("logits", rvit_view),  # 64
    ]


class rvit_result_view(Struct):  # 40 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("data", c_void_p),  # 8
        ("dtype", c_int),  # 16
        ("width", c_int32),  # 20
        ("rows", c_int64),  # 24
        ("stage", c_int32),  # 32
    ]


class rvit_vulkan_device_desc(Struct):  # 104 bytes
    _fields_ = [
        ("struct_size", c_size_t),  # 0
        ("instance", c_void_p),  # 8
        ("physical_device", c_void_p),  # 16
        ("device", c_void_p),  # 24
        ("queue", c_void_p),  # 32
        ("queue_family", c_uint32),  # 40
        ("api_version", c_uint32),  # 44
        ("get_instance_proc_addr", c_void_p),  # 48
        ("features", c_void_p),  # 56
        ("extensions", c_void_p),  # 64
        ("n_extensions", c_uint32),  # 72
        ("lock_queue", c_void_p),  # 80
        ("unlock_queue", c_void_p),  # 88
        ("user", c_void_p),  # 96
    ]


TYPES: dict[str, Any] = {
    "rvit_device_info": rvit_device_info,
    "rvit_allocator": rvit_allocator,
    "rvit_device_desc": rvit_device_desc,
    "rvit_external_memory": rvit_external_memory,
    "rvit_memory_desc": rvit_memory_desc,
    "rvit_view": rvit_view,
    "rvit_stats": rvit_stats,
    "rvit_copy_args": rvit_copy_args,
    "rvit_semaphore_desc": rvit_semaphore_desc,
    "rvit_rows": rvit_rows,
    "rvit_attention_args": rvit_attention_args,
    "rvit_attention_backward_args": rvit_attention_backward_args,
    "rvit_attention_received_args": rvit_attention_received_args,
    "rvit_rope_args": rvit_rope_args,
    "rvit_linear_args": rvit_linear_args,
    "rvit_layernorm_args": rvit_layernorm_args,
    "rvit_quantize_args": rvit_quantize_args,
    "rvit_pack_args": rvit_pack_args,
    "rvit_unpack_args": rvit_unpack_args,
    "rvit_grid_layout_args": rvit_grid_layout_args,
    "rvit_embed_args": rvit_embed_args,
    "rvit_grid_rope_args": rvit_grid_rope_args,
    "rvit_pool_args": rvit_pool_args,
    "rvit_attention_pool_args": rvit_attention_pool_args,
    "rvit_head_args": rvit_head_args,
    "rvit_image": rvit_image,
    "rvit_image_recipe": rvit_image_recipe,
    "rvit_image_geometry": rvit_image_geometry,
    "rvit_images_args": rvit_images_args,
    "rvit_patchify_args": rvit_patchify_args,
    "rvit_preprocess_args": rvit_preprocess_args,
    "rvit_select_args": rvit_select_args,
    "rvit_grid_relayout_args": rvit_grid_relayout_args,
    "rvit_mean_args": rvit_mean_args,
    "rvit_bipartite_match_args": rvit_bipartite_match_args,
    "rvit_merge_args": rvit_merge_args,
    "rvit_positions_args": rvit_positions_args,
    "rvit_pixelprune_args": rvit_pixelprune_args,
    "rvit_prune_desc": rvit_prune_desc,
    "rvit_prune_info": rvit_prune_info,
    "rvit_tensor_info": rvit_tensor_info,
    "rvit_precision_choice": rvit_precision_choice,
    "rvit_model_info": rvit_model_info,
    "rvit_checkpoint_fact": rvit_checkpoint_fact,
    "rvit_checkpoint_info": rvit_checkpoint_info,
    "rvit_tensor_desc": rvit_tensor_desc,
    "rvit_checkpoint_desc": rvit_checkpoint_desc,
    "rvit_model_desc": rvit_model_desc,
    "rvit_session_desc": rvit_session_desc,
    "rvit_memory_info": rvit_memory_info,
    "rvit_session_info": rvit_session_info,
    "rvit_input": rvit_input,
    "rvit_run_args": rvit_run_args,
    "rvit_result_view": rvit_result_view,
    "rvit_vulkan_device_desc": rvit_vulkan_device_desc,
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "rvit_device_info": {
        "struct_size": sizeof(rvit_device_info),
    },
    "rvit_device_desc": {
        "struct_size": sizeof(rvit_device_desc),
        "index": -1,
    },
    "rvit_external_memory": {
        "struct_size": sizeof(rvit_external_memory),
    },
    "rvit_memory_desc": {
        "struct_size": sizeof(rvit_memory_desc),
    },
    "rvit_stats": {
        "struct_size": sizeof(rvit_stats),
    },
    "rvit_copy_args": {
        "struct_size": sizeof(rvit_copy_args),
    },
    "rvit_semaphore_desc": {
        "struct_size": sizeof(rvit_semaphore_desc),
    },
    "rvit_attention_args": {
        "struct_size": sizeof(rvit_attention_args),
    },
    "rvit_attention_backward_args": {
        "struct_size": sizeof(rvit_attention_backward_args),
    },
    "rvit_attention_received_args": {
        "struct_size": sizeof(rvit_attention_received_args),
    },
    "rvit_rope_args": {
        "struct_size": sizeof(rvit_rope_args),
    },
    "rvit_linear_args": {
        "struct_size": sizeof(rvit_linear_args),
    },
    "rvit_layernorm_args": {
        "struct_size": sizeof(rvit_layernorm_args),
    },
    "rvit_quantize_args": {
        "struct_size": sizeof(rvit_quantize_args),
    },
    "rvit_pack_args": {
        "struct_size": sizeof(rvit_pack_args),
    },
    "rvit_unpack_args": {
        "struct_size": sizeof(rvit_unpack_args),
    },
    "rvit_grid_layout_args": {
        "struct_size": sizeof(rvit_grid_layout_args),
    },
    "rvit_embed_args": {
        "struct_size": sizeof(rvit_embed_args),
    },
    "rvit_grid_rope_args": {
        "struct_size": sizeof(rvit_grid_rope_args),
    },
    "rvit_pool_args": {
        "struct_size": sizeof(rvit_pool_args),
    },
    "rvit_attention_pool_args": {
        "struct_size": sizeof(rvit_attention_pool_args),
    },
    "rvit_head_args": {
        "struct_size": sizeof(rvit_head_args),
    },
    "rvit_image": {
        "struct_size": sizeof(rvit_image),
    },
    "rvit_image_recipe": {
        "struct_size": sizeof(rvit_image_recipe),
    },
    "rvit_image_geometry": {
        "struct_size": sizeof(rvit_image_geometry),
    },
    "rvit_images_args": {
        "struct_size": sizeof(rvit_images_args),
    },
    "rvit_patchify_args": {
        "struct_size": sizeof(rvit_patchify_args),
    },
    "rvit_preprocess_args": {
        "struct_size": sizeof(rvit_preprocess_args),
    },
    "rvit_select_args": {
        "struct_size": sizeof(rvit_select_args),
    },
    "rvit_grid_relayout_args": {
        "struct_size": sizeof(rvit_grid_relayout_args),
    },
    "rvit_mean_args": {
        "struct_size": sizeof(rvit_mean_args),
    },
    "rvit_bipartite_match_args": {
        "struct_size": sizeof(rvit_bipartite_match_args),
    },
    "rvit_merge_args": {
        "struct_size": sizeof(rvit_merge_args),
    },
    "rvit_positions_args": {
        "struct_size": sizeof(rvit_positions_args),
    },
    "rvit_pixelprune_args": {
        "struct_size": sizeof(rvit_pixelprune_args),
    },
    "rvit_prune_desc": {
        "struct_size": sizeof(rvit_prune_desc),
        "keep": -1.0,
        "threshold": -1.0,
        "mass": -1.0,
        "alpha": -1.0,
        "object_block": -1,
        "merges": -1,
    },
    "rvit_prune_info": {
        "struct_size": sizeof(rvit_prune_info),
    },
    "rvit_tensor_info": {
        "struct_size": sizeof(rvit_tensor_info),
    },
    "rvit_precision_choice": {
        "struct_size": sizeof(rvit_precision_choice),
    },
    "rvit_model_info": {
        "struct_size": sizeof(rvit_model_info),
    },
    "rvit_checkpoint_info": {
        "struct_size": sizeof(rvit_checkpoint_info),
    },
    "rvit_tensor_desc": {
        "struct_size": sizeof(rvit_tensor_desc),
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
        "features_block": -1,
        "received_block": -1,
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
    "rvit_result_view": {
        "struct_size": sizeof(rvit_result_view),
    },
    "rvit_vulkan_device_desc": {
        "struct_size": sizeof(rvit_vulkan_device_desc),
    },
}

# name: (result, arguments, whether the result is an rvit_status)
FUNCTIONS: dict[str, tuple[Any, list[Any], bool]] = {
    "rvit_status_name": (c_char_p, [c_int], False),
    "rvit_status_detail": (c_char_p, [], False),
    "rvit_version": (c_char_p, [], False),
    "rvit_log_set": (None, [c_void_p, c_void_p], False),
    "rvit_log_stderr": (None, [c_void_p, c_int, c_char_p], False),
    "rvit_enum_name": (c_char_p, [c_int, c_int32], False),
    "rvit_enum_from_name": (c_int, [c_int, c_char_p, c_void_p], True),
    "rvit_device_list": (c_int, [c_void_p, c_int32, c_void_p], True),
    "rvit_device_create": (c_int, [c_void_p, c_void_p], True),
    "rvit_device_destroy": (None, [c_void_p], False),
    "rvit_device_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_device_get_cache": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p], True),
    "rvit_buffer_create": (c_int, [c_void_p, c_int64, c_int, c_void_p], True),
    "rvit_buffer_destroy": (None, [c_void_p], False),
    "rvit_buffer_host": (c_void_p, [c_void_p], False),
    "rvit_buffer_size": (c_int64, [c_void_p], False),
    "rvit_buffer_wrap": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_buffer_set": (c_int, [c_void_p, c_void_p, c_int64], True),
    "rvit_buffer_handle": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_buffer_export": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_create": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_destroy": (None, [c_void_p], False),
    "rvit_stream_wrap": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_stream_set": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_handle": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_synchronize": (c_int, [c_void_p], True),
    "rvit_stream_get_stats": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_write": (c_int, [c_void_p, rvit_view, c_void_p, c_int64], True),
    "rvit_stream_read": (c_int, [c_void_p, rvit_view, c_void_p, c_int64], True),
    "rvit_copy": (c_int, [c_void_p, c_void_p], True),
    "rvit_record_begin": (c_int, [c_void_p], True),
    "rvit_record_end": (c_int, [c_void_p, c_void_p], True),
    "rvit_program_launch": (c_int, [c_void_p, c_void_p], True),
    "rvit_program_destroy": (None, [c_void_p], False),
    "rvit_semaphore_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_semaphore_destroy": (None, [c_void_p], False),
    "rvit_semaphore_export": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_semaphore_handle": (c_int, [c_void_p, c_void_p], True),
    "rvit_stream_wait": (c_int, [c_void_p, c_void_p, c_uint64], True),
    "rvit_stream_signal": (c_int, [c_void_p, c_void_p, c_uint64], True),
    "rvit_dtype_size": (c_int64, [c_int], False),
    "rvit_attention": (c_int, [c_void_p, c_void_p], True),
    "rvit_attention_backward": (c_int, [c_void_p, c_void_p], True),
    "rvit_attention_backward_workspace": (c_int64, [c_void_p], False),
    "rvit_attention_received": (c_int, [c_void_p, c_void_p], True),
    "rvit_rope": (c_int, [c_void_p, c_void_p], True),
    "rvit_linear": (c_int, [c_void_p, c_void_p], True),
    "rvit_layernorm": (c_int, [c_void_p, c_void_p], True),
    "rvit_quantize": (c_int, [c_void_p, c_void_p], True),
    "rvit_pack": (c_int, [c_void_p, c_void_p], True),
    "rvit_unpack": (c_int, [c_void_p, c_void_p], True),
    "rvit_cu_seqlens_check": (c_int, [c_void_p, c_int32, c_int32, c_int64], True),
    "rvit_layout_from_mask": (c_int, [c_void_p, c_int32, c_int32, c_int32, c_void_p, c_void_p], True),
    "rvit_grid_layout": (c_int, [c_void_p, c_void_p], True),
    "rvit_embed": (c_int, [c_void_p, c_void_p], True),
    "rvit_grid_rope": (c_int, [c_void_p, c_void_p], True),
    "rvit_rope_frequencies": (c_int, [c_int, c_double, c_int32, c_void_p], True),
    "rvit_pool": (c_int, [c_void_p, c_void_p], True),
    "rvit_attention_pool": (c_int, [c_void_p, c_void_p], True),
    "rvit_head": (c_int, [c_void_p, c_void_p], True),
    "rvit_image_prepare": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p], True),
    "rvit_images_write": (c_int, [c_void_p, c_void_p, c_int64, c_void_p], True),
    "rvit_images_table_size": (c_int64, [c_int32], False),
    "rvit_patchify": (c_int, [c_void_p, c_void_p], True),
    "rvit_preprocess": (c_int, [c_void_p, c_void_p], True),
    "rvit_image_recipe_grid": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_select": (c_int, [c_void_p, c_void_p], True),
    "rvit_grid_relayout": (c_int, [c_void_p, c_void_p], True),
    "rvit_mean": (c_int, [c_void_p, c_void_p], True),
    "rvit_bipartite_match": (c_int, [c_void_p, c_void_p], True),
    "rvit_merge": (c_int, [c_void_p, c_void_p], True),
    "rvit_positions": (c_int, [c_void_p, c_void_p], True),
    "rvit_pixelprune": (c_int, [c_void_p, c_void_p], True),
    "rvit_count_table": (c_int, [c_int, c_double, c_int32, c_int32, c_void_p], True),
    "rvit_prune_list": (c_int, [c_int32, c_void_p], True),
    "rvit_tensors_open": (c_int, [c_char_p, c_void_p, c_void_p], True),
    "rvit_tensors_destroy": (None, [c_void_p], False),
    "rvit_tensors_count": (c_int32, [c_void_p], False),
    "rvit_tensors_find": (c_int32, [c_void_p, c_char_p], False),
    "rvit_tensors_get": (c_int, [c_void_p, c_int32, c_void_p], True),
    "rvit_tensors_read": (c_int, [c_void_p, c_int32, c_int64, c_int64, c_void_p], True),
    "rvit_tensors_read_bytes": (c_int, [c_void_p, c_int32, c_int64, c_int64, c_void_p], True),
    "rvit_checkpoint_open": (c_int, [c_char_p, c_void_p, c_void_p], True),
    "rvit_checkpoint_destroy": (None, [c_void_p], False),
    "rvit_checkpoint_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_checkpoint_get_model_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_checkpoint_get_recipe": (c_int, [c_void_p, c_void_p], True),
    "rvit_checkpoint_metadata": (c_char_p, [c_void_p, c_char_p], False),
    "rvit_model_create": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p], True),
    "rvit_model_destroy": (None, [c_void_p], False),
    "rvit_precision_choose": (c_int, [c_void_p, c_void_p, c_int, c_void_p], True),
    "rvit_model_update": (c_int, [c_void_p, c_void_p], True),
    "rvit_model_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_model_get_recipe": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_memory": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_destroy": (None, [c_void_p], False),
    "rvit_session_get_info": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_enqueue": (c_int, [c_void_p, c_void_p], True),
    "rvit_session_wait": (c_int, [c_void_p], True),
    "rvit_session_image_status": (c_int, [c_void_p, c_int32], True),
    "rvit_session_run": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_session_input_memory": (c_void_p, [c_void_p, c_void_p], False),
    "rvit_session_get": (c_int, [c_void_p, c_int, c_int32, c_void_p], True),
    "rvit_session_keep_mask": (c_int, [c_void_p, c_int32, c_int32, c_void_p], True),
    "rvit_session_feature_grid": (c_int, [c_void_p, c_int32, c_float, c_void_p], True),
    "rvit_session_get_stats": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_device_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
    "rvit_cuda_device_context": (c_int, [c_void_p, c_void_p], True),
    "rvit_cuda_stream_set_workspace": (c_int, [c_void_p, c_void_p, c_int64], True),
    "rvit_cuda_workspace_size": (c_int64, [c_int32, c_int64], False),
    "rvit_vulkan_device_create": (c_int, [c_void_p, c_void_p, c_void_p], True),
}


def new(name: str, **values: Any) -> Any:
    """A struct as its RVIT_..._INIT makes it, then the fields given."""
    struct = TYPES[name]()
    fill(struct, DEFAULTS.get(name, {}))
    fill(struct, values)
    return struct
