/* Numbers and enums that break an op's rules. */
#include "api.h"
#include "bad_input.h"

#include <math.h>

#define SPOIL(op, word, ...)                   \
    do {                                       \
        any_args args = ops[op].args;          \
        __VA_ARGS__;                           \
        expect_refused(&ops[op], &args, word); \
    } while (0)

#define BAD_DTYPE ((rvit_dtype)77)

static void structs(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    for (int i = 0; i < N_GOOD_OPS; i++) {
        SPOIL(i, "struct_size", args.struct_size = 0);
        SPOIL(i, "struct_size", args.struct_size = SIZE_MAX);
        expect_status(ops[i].call(H.stream[DEVICE], NULL), RVIT_INVALID_ARGUMENT, NULL);
        expect_status(ops[i].call(NULL, &ops[i].args), RVIT_INVALID_ARGUMENT, "stream");
    }
    expect_nothing_written();
}

/* A caller built against another version: fields it lacks are zero, fields that this one does not know must be. */
static void structs_of_other_versions(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    any_args older = ops[PATCHIFY].args;
    older.struct_size = offsetof(rvit_patchify_args, cu_seqlens);
    older.patchify.cu_seqlens.offset = 3;
    expect_ok(ops[PATCHIFY].call(H.stream[DEVICE], &older));
    struct {
        any_args args;
        uint8_t more[64];
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.args = ops[COPY].args;
    newer.args.struct_size = sizeof newer;
    memset((uint8_t *)&newer + sizeof(rvit_copy_args), 0, sizeof newer - sizeof(rvit_copy_args));
    expect_ok(ops[COPY].call(H.stream[DEVICE], &newer.args));
    newer.more[9] = 1;
    expect_refused(&ops[COPY], &newer.args, "byte");
}

static void copy_and_pack(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(COPY, "size", args.copy.size = -4);
    SPOIL(COPY, "size", args.copy.size = 6);
    SPOIL(COPY, "size", args.copy.size = INT64_MAX);
    SPOIL(PACK, "rows", args.pack.rows.capacity = -1);
    SPOIL(PACK, "rows", args.pack.rows.capacity = INT64_MAX);
    SPOIL(PACK, "source_rows", args.pack.source_rows = -1);
    SPOIL(PACK, "row_size", args.pack.row_size = 0);
    SPOIL(PACK, "row_size", args.pack.row_size = -16);
    SPOIL(PACK, "row_size", args.pack.row_size = 6);
    SPOIL(PACK, "row_size", args.pack.row_size = INT64_MAX / 4 * 4);
    SPOIL(PACK, "src_rows", args.pack.rows.capacity = 1 << 30);
    SPOIL(PACK, "source", args.pack.source_rows = 1 << 30);
    SPOIL(UNPACK, "dtype: 77 is not a valid dtype", args.unpack.dtype = BAD_DTYPE);
    SPOIL(UNPACK, "dim", args.unpack.dim = 0);
    SPOIL(UNPACK, "dim", args.unpack.dim = 6);
    SPOIL(UNPACK, "dim", args.unpack.dim = -4);
    SPOIL(UNPACK, "rows", args.unpack.rows.capacity = -1);
    SPOIL(UNPACK, "destination_rows", args.unpack.destination_rows.capacity = -1);
    SPOIL(UNPACK, "padded", args.unpack.destination_rows.padded = 2);
    SPOIL(UNPACK, "destination", args.unpack.destination_rows.capacity = 1 << 20; args.unpack.base.buffer = NULL);
    expect_nothing_written();
}

static void rows_of_values(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(LINEAR, "dtype", args.linear.dtype = BAD_DTYPE);
    SPOIL(LINEAR, "out_dtype", args.linear.out_dtype = BAD_DTYPE);
    SPOIL(LINEAR, "out_dtype", args.linear.out_dtype = RVIT_F16);
    SPOIL(LINEAR, "rows", args.linear.rows.capacity = -1);
    SPOIL(LINEAR, "padded", args.linear.rows.padded = 2);
    SPOIL(LINEAR, "padded", args.linear.rows.padded = -1);
    SPOIL(LINEAR, "in_features", args.linear.in_features = 0);
    SPOIL(LINEAR, "in_features", args.linear.in_features = 10);
    SPOIL(LINEAR, "in_features", args.linear.in_features = INT32_MIN);
    SPOIL(LINEAR, "out_features", args.linear.out_features = -8);
    SPOIL(LINEAR, "out_features", args.linear.out_features = 6);
    SPOIL(LINEAR, "weight", args.linear.out_features = 1 << 20);
    SPOIL(LINEAR, "x", args.linear.rows.capacity = 1 << 20);
    SPOIL(LINEAR, "activation", args.linear.activation = (rvit_activation)(RVIT_ACTIVATION_SILU + 1));
    SPOIL(LINEAR, "activation", args.linear.activation = (rvit_activation)-1);
    SPOIL(LINEAR, "gated", args.linear.gated = 2);
    SPOIL(LINEAR, "gated", args.linear.gated = -1);
    SPOIL(LINEAR, "weight", args.linear.gated = 1); /* pairs of rows */
    SPOIL(LINEAR, "residual_period", args.linear.residual_period = -1);
    SPOIL(LINEAR, "residual", args.linear.residual_period = 1 << 20);
    SPOIL(LINEAR, "in_features", args.linear.dtype = RVIT_I8; args.linear.in_features = 20);
    SPOIL(LINEAR, "in_features", args.linear.dtype = RVIT_E4M3; args.linear.in_features = 65552);
    SPOIL(LINEAR, "x_scales is missing", args.linear.dtype = RVIT_I8);
    SPOIL(LINEAR, "weight_scales is missing", args.linear.dtype = RVIT_I8; args.linear.x_scales = args.linear.x);
    SPOIL(LINEAR, "x_scales is given, but dtype is f32, which has no scales", args.linear.x_scales = args.linear.x);
    SPOIL(LINEAR, "weight_scales is given", args.linear.weight_scales = args.linear.weight);
    SPOIL(LINEAR, "out_dtype is int8", args.linear.dtype = args.linear.out_dtype = RVIT_I8);
    SPOIL(LINEAR, "out_dtype is int8 with dtype e4m3", args.linear.dtype = RVIT_E4M3; args.linear.out_dtype = RVIT_I8);
    SPOIL(LINEAR, "out_dtype is e4m3 with dtype int8, expected f32, f16, bf16", args.linear.dtype = RVIT_I8;
          args.linear.out_dtype = RVIT_E4M3);
    SPOIL(LINEAR, "out_dtype is e4m3, expected f32 (dtype) or f32", args.linear.out_dtype = RVIT_E4M3);
    SPOIL(LINEAR, "static_scale is given, but out_dtype is f32", args.linear.static_scale = args.linear.bias);
    SPOIL(LINEAR, "out_scales is given, but out_dtype is f32", args.linear.out_scales = args.linear.bias);
    SPOIL(LINEAR, "saturated is given, but out_dtype is f32", args.linear.saturated = args.linear.bias);
    SPOIL(LINEAR, "residual is given, but out_dtype is e4m3", args.linear.dtype = args.linear.out_dtype = RVIT_E4M3;
          args.linear.in_features = args.linear.out_features = 16);
    SPOIL(LINEAR, "out_features", args.linear.dtype = args.linear.out_dtype = RVIT_E4M3; args.linear.in_features = 16;
          args.linear.residual.buffer = NULL);
    SPOIL(LINEAR, "static_scale is missing", args.linear.dtype = args.linear.out_dtype = RVIT_E4M3;
          args.linear.in_features = args.linear.out_features = 16; args.linear.residual.buffer = NULL;
          args.linear.x_scales = args.linear.weight_scales = args.linear.x);
    SPOIL(LINEAR, "out_scales is missing", args.linear.dtype = args.linear.out_dtype = RVIT_E4M3;
          args.linear.in_features = args.linear.out_features = 16; args.linear.residual.buffer = NULL;
          args.linear.x_scales = args.linear.weight_scales = args.linear.static_scale = args.linear.x);
    SPOIL(LAYERNORM, "dtype is e4m3, expected f32, f16 or bf16", args.layernorm.dtype = RVIT_E4M3);
    SPOIL(LAYERNORM, "dim", args.layernorm.out_dtype = RVIT_I8; args.layernorm.dim = 12);
    SPOIL(LAYERNORM, "out_scales is missing", args.layernorm.out_dtype = RVIT_I8);
    SPOIL(LAYERNORM, "out_scales is given", args.layernorm.out_scales = args.layernorm.out_x);
    SPOIL(LAYERNORM, "static_scale is given", args.layernorm.static_scale = args.layernorm.gamma);
    SPOIL(LAYERNORM, "saturated is given", args.layernorm.saturated = args.layernorm.out_x);
    SPOIL(QUANTIZE, "dtype", args.quantize.dtype = BAD_DTYPE);
    SPOIL(QUANTIZE, "dtype is int8", args.quantize.dtype = RVIT_I8);
    SPOIL(QUANTIZE, "out_dtype", args.quantize.out_dtype = BAD_DTYPE);
    SPOIL(QUANTIZE, "out_dtype is bf16, expected int8 or e4m3", args.quantize.out_dtype = RVIT_BF16);
    SPOIL(QUANTIZE, "rows", args.quantize.rows.capacity = -1);
    SPOIL(QUANTIZE, "padded", args.quantize.rows.padded = 2);
    SPOIL(QUANTIZE, "columns", args.quantize.columns = 0);
    SPOIL(QUANTIZE, "columns", args.quantize.columns = 24);
    SPOIL(QUANTIZE, "columns", args.quantize.columns = 65552);
    SPOIL(QUANTIZE, "x", args.quantize.rows.capacity = 1 << 20);
    SPOIL(QUANTIZE, "activation", args.quantize.activation = (rvit_activation)(RVIT_ACTIVATION_SILU + 1));
    SPOIL(QUANTIZE, "gated", args.quantize.gated = 2);
    SPOIL(QUANTIZE, "x", args.quantize.gated = 1); /* pairs of columns */
    SPOIL(LAYERNORM, "dtype", args.layernorm.dtype = BAD_DTYPE);
    SPOIL(LAYERNORM, "out_dtype", args.layernorm.out_dtype = BAD_DTYPE);
    SPOIL(LAYERNORM, "rows", args.layernorm.rows.capacity = -1);
    SPOIL(LAYERNORM, "x_rows", args.layernorm.x_rows = -1);
    SPOIL(LAYERNORM, "x_rows", args.layernorm.x_rows = 0);
    SPOIL(LAYERNORM, "dim", args.layernorm.dim = 2);
    SPOIL(LAYERNORM, "dim", args.layernorm.dim = -64);
    SPOIL(LAYERNORM, "eps", args.layernorm.eps = 0);
    SPOIL(LAYERNORM, "eps", args.layernorm.eps = -1e-6f);
    SPOIL(LAYERNORM, "eps", args.layernorm.eps = NAN);
    SPOIL(LAYERNORM, "norm", args.layernorm.norm = (rvit_norm)2);
    SPOIL(LAYERNORM, "norm", args.layernorm.norm = (rvit_norm)-1);
    SPOIL(LAYERNORM, "beta", args.layernorm.norm = RVIT_NORM_RMS);
    SPOIL(LAYERNORM, "features", args.layernorm.features = -1);
    SPOIL(LAYERNORM, "features", args.layernorm.features = GOOD_DIM + 1);
    SPOIL(MERGE, "dtype", args.merge.dtype = BAD_DTYPE);
    SPOIL(MERGE, "rows", args.merge.rows.capacity = -1);
    SPOIL(MERGE, "rows", args.merge.rows.capacity = INT64_MAX);
    SPOIL(MERGE, "src_rows", args.merge.rows.capacity = 1 << 20);
    SPOIL(MERGE, "x_rows", args.merge.x_rows = -1);
    SPOIL(MERGE, "x", args.merge.x_rows = 1 << 20);
    SPOIL(MERGE, "dim", args.merge.dim = 0);
    SPOIL(MERGE, "dim", args.merge.dim = 6);
    expect_nothing_written();
}

static void selections(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(SELECT_TOP_K, "mode", args.select.mode = (rvit_select_mode)5);
    SPOIL(SELECT_TOP_K, "mode", args.select.mode = (rvit_select_mode)-1);
    SPOIL(SELECT_TOP_K, "score", args.select.score = (rvit_score_type)6);
    SPOIL(SELECT_TOP_K, "score", args.select.score = (rvit_score_type)-1);
    SPOIL(SELECT_TOP_K, "n_images", args.select.n_images = -1);
    SPOIL(SELECT_TOP_K, "max_len", args.select.max_len = -1);
    SPOIL(SELECT_TOP_K, "counts", args.select.max_len = 1 << 20);
    SPOIL(SELECT_TOP_K, "rows", args.select.rows = -1);
    SPOIL(SELECT_TOP_K, "scores", args.select.rows = 1 << 20);
    SPOIL(SELECT_TOP_K, "n_prefix", args.select.n_prefix = -1);
    SPOIL(SELECT_TOP_K, "prefix_competes", args.select.prefix_competes = 2);
    SPOIL(SELECT_TOP_K, "error_stays", args.select.error_stays = 2);
    SPOIL(SELECT_THRESHOLD, "threshold", args.select.threshold = NAN);
    SPOIL(SELECT_THRESHOLD, "k_min", args.select.k_min = -1);
    SPOIL(SELECT_MASK, "keep_in", args.select.rows = 1 << 20);
    SPOIL(SELECT_SAMPLE, "n_samples", args.select.n_samples = 0);
    SPOIL(SELECT_SAMPLE, "n_samples", args.select.n_samples = -1);
    SPOIL(SELECT_SAMPLE, "n_samples", args.select.n_samples = 65537);
    SPOIL(SELECT_SAMPLE, "max_len", args.select.max_len = 65537);
    SPOIL(SELECT_MASS, "max_len", args.select.max_len = 65537);
    SPOIL(SELECT_MASS, "mass", args.select.mass = -0x1p-60);
    SPOIL(SELECT_MASS, "mass", args.select.mass = 1 + 0x1p-52);
    SPOIL(SELECT_MASS, "mass", args.select.mass = NAN);
    SPOIL(SELECT_MASS, "position_scores", args.select.max_len = 1 << 16);
    SPOIL(SELECT_L2, "dtype", args.select.dtype = BAD_DTYPE);
    SPOIL(SELECT_L2, "dim", args.select.dim = 0);
    SPOIL(SELECT_L2, "dim", args.select.dim = 7);
    SPOIL(SELECT_L2, "dim", args.select.dim = -16);
    SPOIL(SELECT_L2, "x_stride", args.select.x_stride = 12);
    SPOIL(SELECT_L2, "x_stride", args.select.x_stride = 18);
    SPOIL(SELECT_L2, "x_stride", args.select.x_stride = -16);
    SPOIL(SELECT_L2, "x", args.select.x_stride = 1 << 20);
    SPOIL(SELECT_L2, "x_stride", args.select.x_stride = INT64_MAX / 4 * 4);
    SPOIL(SELECT_FUSED, "n_heads", args.select.n_heads = 0);
    SPOIL(SELECT_FUSED, "n_heads", args.select.n_heads = -2);
    SPOIL(SELECT_FUSED, "cls_probs", args.select.n_heads = 1 << 16);
    SPOIL(SELECT_FUSED, "fuse_dtype", args.select.fuse_dtype = BAD_DTYPE);
    SPOIL(SELECT_FUSED, "fuse_dim", args.select.fuse_dim = 0);
    SPOIL(SELECT_FUSED, "fuse_dim", args.select.fuse_dim = 6);
    SPOIL(SELECT_FUSED, "fuse_x", args.select.fuse_dim = 1 << 20);
    SPOIL(SELECT_FUSED, "fuse_x", args.select.mode = RVIT_SELECT_THRESHOLD);
    SPOIL(SELECT_FUSED, "fuse_x", args.select.mode = RVIT_SELECT_SAMPLE);
    SPOIL(SELECT_SAMPLE, "n_heads", args.select.n_heads = 0);
    SPOIL(SELECT_SAMPLE, "dim", args.select.dim = 2);
    SPOIL(SELECT_PREDICTOR, "dim", args.select.dim = -4);
    SPOIL(SELECT_PREDICTOR, "dtype", args.select.dtype = BAD_DTYPE);
    SPOIL(SELECT_ANCHORS, "anchor_columns", args.select.anchor_columns = 0);
    SPOIL(SELECT_ANCHORS, "anchor_columns", args.select.anchor_columns = -2);
    SPOIL(SELECT_ANCHORS, "anchors", args.select.mode = RVIT_SELECT_THRESHOLD);
    SPOIL(SELECT_ANCHORS, "anchors", args.select.score = RVIT_SCORE_GIVEN);
    SPOIL(SELECT_ANCHORS, "anchors", args.select.score = RVIT_SCORE_CLS_NORM);
    expect_nothing_written();
}

static void pairs_and_means(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(MEAN, "dtype", args.mean.dtype = BAD_DTYPE);
    SPOIL(MEAN, "n_images", args.mean.n_images = -1);
    SPOIL(MEAN, "cu_seqlens", args.mean.n_images = 1 << 20);
    SPOIL(MEAN, "max_len", args.mean.max_len = -1);
    SPOIL(MEAN, "rows", args.mean.rows = -1);
    SPOIL(MEAN, "x", args.mean.rows = 1 << 20);
    SPOIL(MEAN, "n_prefix", args.mean.n_prefix = -1);
    SPOIL(MEAN, "dim", args.mean.dim = 0);
    SPOIL(MEAN, "dim", args.mean.dim = 18);
    SPOIL(MEAN, "first_column", args.mean.first_column = -4);
    SPOIL(MEAN, "first_column", args.mean.first_column = 16);
    SPOIL(MEAN, "first_column", args.mean.first_column = 6);
    SPOIL(BIPARTITE_MATCH, "dtype", args.bipartite_match.dtype = BAD_DTYPE);
    SPOIL(BIPARTITE_MATCH, "n_images", args.bipartite_match.n_images = -1);
    SPOIL(BIPARTITE_MATCH, "max_len", args.bipartite_match.max_len = -1);
    SPOIL(BIPARTITE_MATCH, "rows", args.bipartite_match.rows = -1);
    SPOIL(BIPARTITE_MATCH, "k", args.bipartite_match.rows = 1 << 20);
    SPOIL(BIPARTITE_MATCH, "n_prefix", args.bipartite_match.n_prefix = -1);
    SPOIL(BIPARTITE_MATCH, "n_heads", args.bipartite_match.n_heads = 0);
    SPOIL(BIPARTITE_MATCH, "head_dim", args.bipartite_match.head_dim = 0);
    SPOIL(BIPARTITE_MATCH, "head_dim", args.bipartite_match.head_dim = 12);
    SPOIL(BIPARTITE_MATCH, "head_dim", args.bipartite_match.head_dim = 136);
    SPOIL(BIPARTITE_MATCH, "merges", args.bipartite_match.merges = -1);
    SPOIL(BIPARTITE_MATCH, "k_stride", args.bipartite_match.k_stride = 8);
    SPOIL(BIPARTITE_MATCH, "k_stride", args.bipartite_match.k_stride = 28);
    SPOIL(BIPARTITE_MATCH, "k", args.bipartite_match.k_stride = 1 << 20);
    expect_nothing_written();
}

static void gradients(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
#define SPOIL_FIELD(word, field, value) SPOIL(ATTENTION_BACKWARD, word, args.attention_backward.field = (value))
    SPOIL_FIELD("dtype", dtype, BAD_DTYPE);
    SPOIL_FIELD("n_images", n_images, -1);
    SPOIL_FIELD("cu_seqlens", n_images, 1 << 20);
    SPOIL_FIELD("n_heads", n_heads, 0);
    SPOIL_FIELD("n_heads", n_heads, INT32_MAX);
    static const int32_t dims[] = {0, 4, 12, -8, 136, 1 << 30};
    for (int i = 0; i < 6; i++)
        SPOIL_FIELD("head_dim", head_dim, dims[i]);
    SPOIL_FIELD("max_len", max_len, -1);
    SPOIL_FIELD("rows", rows, -1);
    SPOIL_FIELD("rows", rows, INT64_MAX);
    SPOIL_FIELD("q", rows, 1 << 24);
    SPOIL_FIELD("scale", scale, NAN);
    SPOIL_FIELD("scale", scale, INFINITY);
    SPOIL_FIELD("q_stride", q_stride, 8);
    SPOIL_FIELD("k_stride", k_stride, 20);
    SPOIL_FIELD("v_stride", v_stride, -16);
    SPOIL_FIELD("out_stride", out_stride, INT64_MAX / 8 * 8);
    SPOIL_FIELD("d_out_stride", d_out_stride, 8);
    SPOIL_FIELD("d_q_stride", d_q_stride, 20);
    SPOIL_FIELD("d_k_stride", d_k_stride, -16);
    SPOIL_FIELD("d_v_stride", d_v_stride, 1 << 29);
    SPOIL_FIELD("d_v", d_v_stride, 1 << 20);
#undef SPOIL_FIELD
    /* What rvit_attention_backward_workspace says is what the call asks for. */
    rvit_attention_backward_args a = ops[ATTENTION_BACKWARD].args.attention_backward;
    assert_int_equal(rvit_attention_backward_workspace(&a), array_of(a.workspace.buffer)->size);
    a.rows = -1;
    expect_status(rvit_attention_backward_workspace(&a) < 0 ? RVIT_INVALID_ARGUMENT : RVIT_OK, RVIT_INVALID_ARGUMENT, "rows");
    a.rows = 3;
    a.n_heads = 0;
    expect_status(rvit_attention_backward_workspace(&a) < 0 ? RVIT_INVALID_ARGUMENT : RVIT_OK, RVIT_INVALID_ARGUMENT, "n_heads");
    assert_true(rvit_attention_backward_workspace(NULL) < 0);
    expect_nothing_written();
}

static void images(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(ATTENTION, "dtype", args.attention.dtype = BAD_DTYPE);
    SPOIL(ATTENTION, "n_images", args.attention.n_images = -1);
    SPOIL(ATTENTION, "cu_seqlens", args.attention.n_images = 1 << 20);
    SPOIL(ATTENTION, "cu_seqlens", args.attention.n_images = INT32_MAX - 1);
    SPOIL(ATTENTION, "n_heads", args.attention.n_heads = 0);
    SPOIL(ATTENTION, "n_heads", args.attention.n_heads = INT32_MAX);
    static const int32_t dims[] = {0, 4, 12, -8, 136, 1 << 30};
    for (int i = 0; i < 6; i++)
        SPOIL(ATTENTION, "head_dim", args.attention.head_dim = dims[i]);
    SPOIL(ATTENTION, "max_len", args.attention.max_len = -1);
    SPOIL(ATTENTION, "rows", args.attention.rows = -1);
    SPOIL(ATTENTION, "rows", args.attention.rows = INT64_MAX);
    SPOIL(ATTENTION, "q", args.attention.rows = 1 << 24);
    SPOIL(ATTENTION, "scale", args.attention.scale = NAN);
    SPOIL(ATTENTION, "scale", args.attention.scale = INFINITY);
    SPOIL(ATTENTION, "q_stride", args.attention.q_stride = 8);
    SPOIL(ATTENTION, "k_stride", args.attention.k_stride = 20);
    SPOIL(ATTENTION, "v_stride", args.attention.v_stride = -16);
    SPOIL(ATTENTION, "out_stride", args.attention.out_stride = INT64_MAX / 8 * 8);
    SPOIL(ATTENTION, "k", args.attention.k_stride = 1 << 20);
    SPOIL(HEAD, "dtype", args.head.dtype = BAD_DTYPE);
    SPOIL(HEAD, "weight_dtype", args.head.weight_dtype = BAD_DTYPE);
    SPOIL(HEAD, "n_images", args.head.n_images = -1);
    SPOIL(HEAD, "rows", args.head.rows = -1);
    SPOIL(HEAD, "dim", args.head.dim = 6);
    SPOIL(HEAD, "n_tokens", args.head.n_tokens = 0);
    SPOIL(HEAD, "n_tokens", args.head.n_tokens = 3);
    SPOIL(HEAD, "n_classes", args.head.n_classes = 0);
    SPOIL(HEAD, "weight", args.head.n_classes = 1 << 20);
    SPOIL(HEAD, "eps", args.head.eps = 0);
    SPOIL(HEAD, "norm", args.head.norm = (rvit_norm)2);
    SPOIL(HEAD, "norm", args.head.norm = (rvit_norm)-1; args.head.gamma.buffer = args.head.beta.buffer = NULL);
    SPOIL(HEAD, "beta", args.head.norm = RVIT_NORM_RMS);
    SPOIL(HEAD, "beta", args.head.gamma.buffer = NULL);
    SPOIL(HEAD, "rows", args.head.cu_seqlens.buffer = NULL; args.head.rows = GOOD_IMAGES - 1);
    SPOIL(PATCHIFY, "dtype", args.patchify.dtype = BAD_DTYPE);
    SPOIL(PATCHIFY, "n_images", args.patchify.n_images = -1);
    SPOIL(PATCHIFY, "channels", args.patchify.channels = 0);
    SPOIL(PATCHIFY, "image_size", args.patchify.image_size = 10);
    SPOIL(PATCHIFY, "image_size", args.patchify.image_size = 0);
    SPOIL(PATCHIFY, "patch_size", args.patchify.patch_size = 0);
    SPOIL(PATCHIFY, "patch_size", args.patchify.patch_size = 1);
    SPOIL(PATCHIFY, "patch_size", args.patchify.patch_size = -4);
    SPOIL(PATCHIFY, "n_prefix", args.patchify.n_prefix = -1);
    SPOIL(PATCHIFY, "images", args.patchify.image_size = 64);
    SPOIL(PATCHIFY, "out_stride", args.patchify.out_stride = 46);
    SPOIL(PATCHIFY, "out_stride", args.patchify.out_stride = 51);
    SPOIL(PATCHIFY, "out", args.patchify.out_stride = 1 << 20);
    SPOIL(PATCHIFY, "image_size", args.patchify.image_height = args.patchify.image_width = 8);
    SPOIL(PATCHIFY, "image_height", args.patchify.image_size = 0, args.patchify.image_width = 8);
    SPOIL(PATCHIFY, "image_height", args.patchify.image_size = 0, args.patchify.image_height = 6, args.patchify.image_width = 8);
    SPOIL(PATCHIFY, "image_width", args.patchify.image_size = 0, args.patchify.image_height = 8, args.patchify.image_width = -4);
    SPOIL(PATCHIFY, "image_width", args.patchify.image_size = 0, args.patchify.image_height = 8, args.patchify.image_width = 1 << 20);
    SPOIL(PATCHIFY, "image_width", args.patchify.crop = 1, args.patchify.image_size = 0, args.patchify.image_height = 8,
          args.patchify.image_width = 3);
    SPOIL(PATCHIFY, "images", args.patchify.crop = 1, args.patchify.image_size = 9);
    SPOIL(PATCHIFY, "crop", args.patchify.crop = 2);
    SPOIL(PATCHIFY, "split", args.patchify.split = 3);
    SPOIL(PREPROCESS, "split", args.preprocess.split = -1);
    SPOIL(PREPROCESS, "split is 2", args.preprocess.split = 2);
    SPOIL(PATCHIFY, "split is 2", args.patchify.split = 2);
    SPOIL(PATCHIFY, "out_stride", args.patchify.dtype = RVIT_F16, args.patchify.split = 2, args.patchify.out_stride = 98);
    expect_nothing_written();
}

static void pooled(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    SPOIL(POOL, "dtype", args.pool.dtype = BAD_DTYPE);
    SPOIL(POOL, "out_dtype", args.pool.out_dtype = BAD_DTYPE);
    SPOIL(POOL, "mode", args.pool.mode = (rvit_pool_mode)2);
    SPOIL(POOL, "mode", args.pool.mode = (rvit_pool_mode)-1);
    SPOIL(POOL, "n_images", args.pool.n_images = -1);
    SPOIL(POOL, "cu_seqlens", args.pool.n_images = 1 << 20);
    SPOIL(POOL, "max_len", args.pool.max_len = -1);
    SPOIL(POOL, "n_prefix", args.pool.n_prefix = -1);
    SPOIL(POOL, "rows", args.pool.rows = -1);
    SPOIL(POOL, "x", args.pool.rows = 1 << 20);
    SPOIL(POOL, "dim", args.pool.dim = 0);
    SPOIL(POOL, "dim", args.pool.dim = 6);
    SPOIL(POOL, "norm", args.pool.norm = (rvit_norm)2);
    SPOIL(POOL, "eps", args.pool.eps = 0);
    SPOIL(POOL, "eps", args.pool.eps = NAN);
    SPOIL(POOL, "beta", args.pool.norm = RVIT_NORM_RMS);
    SPOIL(POOL, "beta", args.pool.gamma.buffer = NULL);
    SPOIL(POOL, "out_stride", args.pool.out_stride = 12);
    SPOIL(POOL, "out_stride", args.pool.out_stride = 18);
    SPOIL(POOL, "out", args.pool.out_stride = 1 << 20);
    SPOIL(ATTENTION_POOL, "dtype", args.attention_pool.dtype = BAD_DTYPE);
    SPOIL(ATTENTION_POOL, "out_dtype", args.attention_pool.out_dtype = BAD_DTYPE);
    SPOIL(ATTENTION_POOL, "n_images", args.attention_pool.n_images = -1);
    SPOIL(ATTENTION_POOL, "cu_seqlens", args.attention_pool.n_images = 1 << 20);
    SPOIL(ATTENTION_POOL, "n_heads", args.attention_pool.n_heads = 0);
    SPOIL(ATTENTION_POOL, "n_heads", args.attention_pool.n_heads = INT32_MAX);
    static const int32_t dims[] = {0, 2, 6, -4, 196, 1 << 30};
    for (int i = 0; i < 6; i++)
        SPOIL(ATTENTION_POOL, "head_dim", args.attention_pool.head_dim = dims[i]);
    SPOIL(ATTENTION_POOL, "weight", args.attention_pool.head_dim = 192);
    SPOIL(ATTENTION_POOL, "max_len", args.attention_pool.max_len = -1);
    SPOIL(ATTENTION_POOL, "rows", args.attention_pool.rows = -1);
    SPOIL(ATTENTION_POOL, "x", args.attention_pool.rows = 1 << 20);
    SPOIL(ATTENTION_POOL, "dim", args.attention_pool.dim = 0);
    SPOIL(ATTENTION_POOL, "dim", args.attention_pool.dim = 6);
    SPOIL(ATTENTION_POOL, "logits_stride", args.attention_pool.logits_stride = 2);
    SPOIL(ATTENTION_POOL, "logits_stride", args.attention_pool.logits_stride = -4);
    SPOIL(ATTENTION_POOL, "logits", args.attention_pool.logits_stride = 1 << 20);
    expect_nothing_written();
}

SUITE(bad_values_suite, TEST(structs), TEST(structs_of_other_versions), TEST(copy_and_pack), TEST(rows_of_values), TEST(selections),
      TEST(pairs_and_means), TEST(gradients), TEST(images), TEST(pooled));
