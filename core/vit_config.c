#include "core/vit_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

enum { SHOWN_NAME = 96, SHOWN_SHAPE = 192, MAX_EXTENT = 1 << 20, MAX_CHANNELS = 1024, MAX_PATCH = 1024 };

/* The extents that tensors are made of. */
typedef enum extent {
    ONE,
    TOKENS,
    CHANNELS,
    PATCH,
    PATCH_VALUES, /* channels * patch^2 */
    DIM,
    DIM3,
    MLP,
    CLASSES,
    EXTENT_COUNT
} extent;

typedef struct expected_tensor {
    const char *name;
    int32_t distilled; /* 1: of distilled models only */
    int32_t rank;
    extent shape[4];
} expected_tensor;

static const expected_tensor model_tensors[] = {
    {"cls_token", 0, 3, {ONE, ONE, DIM}},
    {"dist_token", 1, 3, {ONE, ONE, DIM}},
    {"pos_embed", 0, 3, {ONE, TOKENS, DIM}},
    {"patch_embed.proj.weight", 0, 4, {DIM, CHANNELS, PATCH, PATCH}},
    {"patch_embed.proj.bias", 0, 1, {DIM}},
    {"norm.weight", 0, 1, {DIM}},
    {"norm.bias", 0, 1, {DIM}},
    {"head.weight", 0, 2, {CLASSES, DIM}},
    {"head.bias", 0, 1, {CLASSES}},
    {"head_dist.weight", 1, 2, {CLASSES, DIM}},
    {"head_dist.bias", 1, 1, {CLASSES}},
};

/* After "blocks.<index>." */
static const expected_tensor block_tensors[] = {
    {"norm1.weight", 0, 1, {DIM}},          {"norm1.bias", 0, 1, {DIM}},
    {"attn.qkv.weight", 0, 2, {DIM3, DIM}}, {"attn.qkv.bias", 0, 1, {DIM3}},
    {"attn.proj.weight", 0, 2, {DIM, DIM}}, {"attn.proj.bias", 0, 1, {DIM}},
    {"norm2.weight", 0, 1, {DIM}},          {"norm2.bias", 0, 1, {DIM}},
    {"mlp.fc1.weight", 0, 2, {MLP, DIM}},   {"mlp.fc1.bias", 0, 1, {MLP}},
    {"mlp.fc2.weight", 0, 2, {DIM, MLP}},   {"mlp.fc2.bias", 0, 1, {DIM}},
};

/* The old form of the patch weight: the same values, flat. */
static const expected_tensor flat_patch_weight = {"patch_embed.proj.weight", 0, 2, {DIM, PATCH_VALUES}};

enum { N_MODEL_TENSORS = sizeof model_tensors / sizeof *model_tensors, N_BLOCK_TENSORS = sizeof block_tensors / sizeof *block_tensors };

typedef struct plan {
    const rvit_safetensors *file;
    const char *path;
    int32_t distilled, depth;
    int64_t extents[EXTENT_COUNT];
} plan;

static const rvit_file_tensor *find(const plan *p, const char *name)
{
    const int32_t index = rvit_safetensors_find(p->file, name);
    return index < 0 ? NULL : rvit_safetensors_tensor(p->file, index);
}

/* The i-th tensor that the plan asks for and its full name; NULL: this model does not have it. */
static const expected_tensor *expected(const plan *p, int64_t i, char name[64])
{
    if (i < N_MODEL_TENSORS) {
        snprintf(name, 64, "%s", model_tensors[i].name);
        return model_tensors[i].distilled && !p->distilled ? NULL : &model_tensors[i];
    }
    const expected_tensor *tensor = &block_tensors[(i - N_MODEL_TENSORS) % N_BLOCK_TENSORS];
    snprintf(name, 64, "blocks.%d.%s", (int)((i - N_MODEL_TENSORS) / N_BLOCK_TENSORS), tensor->name);
    return tensor;
}

static int64_t n_expected(const plan *p)
{
    return N_MODEL_TENSORS + (int64_t)p->depth * N_BLOCK_TENSORS;
}

static void format_shape(char out[SHOWN_SHAPE], int32_t rank, const int64_t *shape)
{
    int at = snprintf(out, SHOWN_SHAPE, "[");
    for (int32_t i = 0; i < rank; i++)
        at += snprintf(out + at, (size_t)(SHOWN_SHAPE - at), i == 0 ? "%" PRId64 : ", %" PRId64, shape[i]);
    snprintf(out + at, (size_t)(SHOWN_SHAPE - at), "]");
}

/* What is known of other models. */
static const struct {
    const char *text;
    int32_t prefix; /* 1: names begin with text, 0: names hold it */
    const char *what;
} foreign[] = {
    {"register_tokens", 1, "register tokens"},
    {"reg_token", 1, "register tokens"},
    {".ls1.", 0, "layer scale"},
    {".ls2.", 0, "layer scale"},
    {".gamma_1", 0, "layer scale"},
    {".gamma_2", 0, "layer scale"},
    {".attn.q_norm.", 0, "normalised queries and keys"},
    {".attn.k_norm.", 0, "normalised queries and keys"},
    {".mlp.w12.", 0, "a gated (SwiGLU) MLP"},
    {".mlp.fc1_g.", 0, "a gated (SwiGLU) MLP"},
    {"relative_position_bias_table", 0, "a relative position bias"},
    {"pre_logits.", 1, "a layer between norm and head"},
    {"norm_pre.", 1, "a norm before the first block"},
    {"fc_norm.", 1, "a head on averaged patches"},
    {"attn_pool.", 1, "a head with attention pooling"},
};

static rvit_status check_family(const plan *p)
{
    static const char *const timm[] = {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.norm1.weight"};
    static const char *const hugging_face[] = {"vit.", "deit.", "dinov2.", "embeddings.", "encoder.layer."};
    int known = 0;
    for (size_t i = 0; i < sizeof timm / sizeof *timm; i++)
        known |= find(p, timm[i]) != NULL;
    if (!known) {
        for (size_t i = 0; i < sizeof hugging_face / sizeof *hugging_face; i++)
            if (rvit_safetensors_find_prefix(p->file, hugging_face[i]) >= 0)
                return rvit_fail(RVIT_UNSUPPORTED, "%s: the tensors have Hugging Face names ('%s...'); timm's are read", p->path,
                                 hugging_face[i]);
        if (rvit_safetensors_count(p->file) == 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: holds no tensors", p->path);
        char shown[SHOWN_NAME];
        rvit_printable(shown, sizeof shown, rvit_safetensors_tensor(p->file, 0)->name);
        return rvit_fail(RVIT_BAD_FILE, "%s: none of the tensors has the name of a Vision Transformer's in timm (the first is '%s')",
                         p->path, shown);
    }
    for (int32_t i = 0; i < rvit_safetensors_count(p->file); i++) {
        const char *name = rvit_safetensors_tensor(p->file, i)->name;
        for (size_t j = 0; j < sizeof foreign / sizeof *foreign; j++) {
            const int found =
                foreign[j].prefix ? strncmp(name, foreign[j].text, strlen(foreign[j].text)) == 0 : strstr(name, foreign[j].text) != NULL;
            if (found && strncmp(name, "score_predictor.", 16) != 0) {
                char shown[SHOWN_NAME];
                rvit_printable(shown, sizeof shown, name);
                return rvit_fail(RVIT_UNSUPPORTED, "%s: the model has %s (tensor '%s')", p->path, foreign[j].what, shown);
            }
        }
    }
    return RVIT_OK;
}

/* The number of a "blocks.<index>." name without leading zeros; -1 if it is none. Saturates. */
static int64_t block_index(const char *name)
{
    if (strncmp(name, "blocks.", 7) != 0 || name[7] < '0' || name[7] > '9' || (name[7] == '0' && name[8] != '.'))
        return -1;
    int64_t index = 0;
    const char *digit = name + 7;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        index = index > MAX_EXTENT ? index : index * 10 + (*digit - '0');
    return *digit == '.' ? index : -1;
}

static rvit_status count_blocks(plan *p)
{
    for (char prefix[32];; p->depth++) {
        snprintf(prefix, sizeof prefix, "blocks.%d.", (int)p->depth);
        if (rvit_safetensors_find_prefix(p->file, prefix) < 0)
            break;
    }
    for (int32_t i = 0; i < rvit_safetensors_count(p->file); i++) {
        const char *name = rvit_safetensors_tensor(p->file, i)->name;
        if (block_index(name) > p->depth) {
            char shown[SHOWN_NAME];
            rvit_printable(shown, sizeof shown, name);
            return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is there, but every tensor of block %d is missing", p->path, shown,
                             (int)p->depth);
        }
    }
    return RVIT_OK;
}

static rvit_status check_missing(const plan *p)
{
    char first[64] = "";
    int64_t n_missing = 0;
    for (int64_t i = 0; i < n_expected(p); i++) {
        char name[64];
        if (expected(p, i, name) == NULL || find(p, name) != NULL)
            continue;
        if (n_missing++ == 0)
            memcpy(first, name, sizeof first);
    }
    if (n_missing != 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing (%" PRId64 " missing in all)", p->path, first, n_missing);
    if (p->depth == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor 'blocks.0.norm1.weight' is missing: the model has no blocks", p->path);
    return RVIT_OK;
}

/* One tensor's word on an extent; -1 if it has not this rank. */
static int64_t vote(const plan *p, const char *name, int32_t rank, int32_t axis)
{
    const rvit_file_tensor *tensor = find(p, name);
    return tensor != NULL && tensor->rank == rank ? tensor->shape[axis] : -1;
}

/* What two of three say, else the first that says anything: so that one misshaped tensor is the one that is named. */
static int64_t majority(int64_t a, int64_t b, int64_t c)
{
    if (a >= 0 && (a == b || a == c))
        return a;
    if (b >= 0 && b == c)
        return b;
    return a >= 0 ? a : b >= 0 ? b : c;
}

static rvit_status set_extent(plan *p, extent which, int64_t value, int64_t max, const char *what, const char *tensor)
{
    if (value < 1)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': its shape does not give the %s", p->path, tensor, what);
    if (value > max)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: tensor '%s': the %s %" PRId64 " is above %" PRId64, p->path, tensor, what, value, max);
    p->extents[which] = value;
    return RVIT_OK;
}

static rvit_status infer_width(plan *p)
{
    const rvit_file_tensor *patch = find(p, "patch_embed.proj.weight");
    const int64_t dim =
        majority(vote(p, "patch_embed.proj.bias", 1, 0), patch->rank > 0 ? patch->shape[0] : -1, vote(p, "cls_token", 3, 2));
    RVIT_TRY(set_extent(p, DIM, dim, MAX_EXTENT, "width", "patch_embed.proj.bias"));
    if (dim % 64 != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: the width %" PRId64 " is not a multiple of 64, the width of a head", p->path, dim);
    /* The shapes do not tell the heads; the published models of these widths have heads of 72, 80, 88 and 104. */
    if (dim == 1152 || dim == 1280 || dim == 1408 || dim == 1664)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: models of width %" PRId64 " have heads that are not 64 wide", p->path, dim);
    p->extents[DIM3] = 3 * dim;
    return RVIT_OK;
}

static int64_t integer_root(int64_t n)
{
    int64_t root = (int64_t)sqrt((double)n);
    while (root * root > n)
        root--;
    while ((root + 1) * (root + 1) <= n)
        root++;
    return root;
}

static rvit_status infer_patch(plan *p)
{
    static const char name[] = "patch_embed.proj.weight";
    const rvit_file_tensor *tensor = find(p, name);
    int64_t channels = 3, patch = -1;
    if (tensor->rank == 4 && tensor->shape[2] == tensor->shape[3]) {
        channels = tensor->shape[1];
        patch = tensor->shape[2];
    } else if (tensor->rank == 2 && tensor->shape[1] % 3 == 0) {
        const int64_t root = integer_root(tensor->shape[1] / 3);
        patch = root * root * 3 == tensor->shape[1] ? root : -1;
    }
    if (patch < 1) {
        char shape[SHOWN_SHAPE];
        format_shape(shape, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape [%" PRId64 ", channels, patch, patch], found %s", p->path,
                         name, p->extents[DIM], shape);
    }
    RVIT_TRY(set_extent(p, CHANNELS, channels, MAX_CHANNELS, "number of channels", name));
    RVIT_TRY(set_extent(p, PATCH, patch, MAX_PATCH, "patch size", name));
    if (patch % 2 != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: the patch size %" PRId64 " is odd", p->path, patch);
    p->extents[PATCH_VALUES] = channels * patch * patch;
    return RVIT_OK;
}

static rvit_status infer_grid(plan *p, int64_t *out_grid)
{
    static const char name[] = "pos_embed";
    const int64_t tokens = vote(p, name, 3, 1), n_prefix = 1 + p->distilled;
    RVIT_TRY(set_extent(p, TOKENS, tokens, MAX_EXTENT, "number of tokens", name));
    const int64_t patches = tokens - n_prefix, grid = patches > 0 ? integer_root(patches) : 0;
    const int64_t bare_grid = integer_root(tokens);
    if (grid * grid != patches && bare_grid * bare_grid == tokens)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: tensor '%s': its %" PRId64 " rows have no place for the prefix tokens", p->path, name,
                         tokens);
    if (patches < 1 || grid * grid != patches)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': %" PRId64 " rows less %" PRId64 " of prefix tokens do not make a square grid",
                         p->path, name, tokens, n_prefix);
    if (grid * p->extents[PATCH] > MAX_EXTENT)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: the image size %" PRId64 " is above %d", p->path, grid * p->extents[PATCH], MAX_EXTENT);
    *out_grid = grid;
    return RVIT_OK;
}

static rvit_status infer_mlp(plan *p)
{
    const int64_t mlp = majority(vote(p, "blocks.0.mlp.fc1.weight", 2, 0), vote(p, "blocks.0.mlp.fc1.bias", 1, 0),
                                 vote(p, "blocks.0.mlp.fc2.weight", 2, 1));
    RVIT_TRY(set_extent(p, MLP, mlp, MAX_EXTENT, "width of the MLP", "blocks.0.mlp.fc1.weight"));
    if (mlp % 4 != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: the MLP's width %" PRId64 " is not a multiple of 4", p->path, mlp);
    return RVIT_OK;
}

static rvit_status infer(plan *p, int64_t *out_grid)
{
    p->extents[ONE] = 1;
    RVIT_TRY(infer_width(p));
    RVIT_TRY(infer_patch(p));
    RVIT_TRY(infer_grid(p, out_grid));
    RVIT_TRY(infer_mlp(p));
    const int64_t classes = majority(vote(p, "head.weight", 2, 0), vote(p, "head.bias", 1, 0), vote(p, "head_dist.weight", 2, 0));
    return set_extent(p, CLASSES, classes, MAX_EXTENT, "number of classes", "head.weight");
}

/* Checks one tensor against its place and marks it. */
static rvit_status check_tensor(const plan *p, const expected_tensor *wanted, const char *name, uint8_t *used, int64_t *n_parameters)
{
    const int32_t index = rvit_safetensors_find(p->file, name);
    const rvit_file_tensor *tensor = rvit_safetensors_tensor(p->file, index);
    if (wanted->shape[1] == CHANNELS && tensor->rank == 2)
        wanted = &flat_patch_weight;
    int64_t shape[4];
    int same = tensor->rank == wanted->rank;
    for (int32_t i = 0; i < wanted->rank; i++) {
        shape[i] = p->extents[wanted->shape[i]];
        same = same && tensor->shape[i] == shape[i];
    }
    if (!same) {
        char want[SHOWN_SHAPE], found[SHOWN_SHAPE];
        format_shape(want, wanted->rank, shape);
        format_shape(found, tensor->rank, tensor->shape);
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected the shape %s, found %s", p->path, name, want, found);
    }
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype %s; weights are F32, F16 or BF16", p->path, name, tensor->dtype_name);
    used[index] = 1;
    *n_parameters += tensor->n_elements;
    return RVIT_OK;
}

/* Tensors that belong to nothing here, but often come along: pruning predictors, the mask of the training. */
static int ignorable(const char *name)
{
    return strncmp(name, "score_predictor.", 16) == 0 || strcmp(name, "mask_token") == 0;
}

static rvit_status count_tensors(const plan *p, int32_t lenient, const uint8_t *used, rvit_model_info *info)
{
    const char *first = NULL;
    int32_t n_errors = 0;
    info->n_tensors = rvit_safetensors_count(p->file);
    for (int32_t i = 0; i < info->n_tensors; i++) {
        const rvit_file_tensor *tensor = rvit_safetensors_tensor(p->file, i);
        if (tensor->dtype >= 0)
            info->n_by_dtype[tensor->dtype]++;
        if (used[i])
            continue;
        info->n_unknown++;
        if (!ignorable(tensor->name) && n_errors++ == 0)
            first = tensor->name;
    }
    if (lenient || n_errors == 0)
        return RVIT_OK;
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, first);
    return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is unknown (%d unknown in all); a lenient reader may pass over them", p->path, shown,
                     (int)n_errors);
}

static void name_architecture(rvit_model_info *info)
{
    static const struct {
        const char *name;
        int32_t dim;
    } sizes[] = {{"tiny", 192}, {"small", 384}, {"base", 768}};
    const char *distilled = info->n_prefix == 2 ? "_distilled" : "";
    if (info->depth == 12 && info->mlp_dim == 4 * info->dim)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (sizes[i].dim == info->dim) {
                snprintf(info->architecture, sizeof info->architecture, "deit_%s%s_patch%d_%d", sizes[i].name, distilled,
                         (int)info->patch_size, (int)info->image_size);
                return;
            }
    snprintf(info->architecture, sizeof info->architecture, "vit_d%d_h%d_l%d%s_patch%d_%d", (int)info->dim, (int)info->n_heads,
             (int)info->depth, distilled, (int)info->patch_size, (int)info->image_size);
}

rvit_status rvit_vit_config(const rvit_safetensors *file, int32_t lenient, uint8_t *used, rvit_model_info *info)
{
    plan p = {.file = file, .path = rvit_safetensors_path(file)};
    RVIT_TRY(check_family(&p));
    p.distilled = find(&p, "dist_token") != NULL || find(&p, "head_dist.weight") != NULL || find(&p, "head_dist.bias") != NULL;
    RVIT_TRY(count_blocks(&p));
    RVIT_TRY(check_missing(&p));
    int64_t grid = 0;
    RVIT_TRY(infer(&p, &grid));

    rvit_model_info result = {.struct_size = sizeof result, .family = "timm", .eps = 1e-6f, .head_dim = 64};
    for (int64_t i = 0; i < n_expected(&p); i++) {
        char name[64];
        const expected_tensor *wanted = expected(&p, i, name);
        if (wanted != NULL)
            RVIT_TRY(check_tensor(&p, wanted, name, used, &result.n_parameters));
    }
    RVIT_TRY(count_tensors(&p, lenient, used, &result));
    result.patch_size = (int32_t)p.extents[PATCH];
    result.image_size = (int32_t)grid * result.patch_size;
    result.channels = (int32_t)p.extents[CHANNELS];
    result.dim = (int32_t)p.extents[DIM];
    result.n_heads = result.dim / result.head_dim;
    result.depth = p.depth;
    result.mlp_dim = (int32_t)p.extents[MLP];
    result.n_prefix = 1 + p.distilled;
    result.tokens = (int32_t)p.extents[TOKENS];
    result.n_classes = (int32_t)p.extents[CLASSES];
    name_architecture(&result);
    *info = result;
    return RVIT_OK;
}
