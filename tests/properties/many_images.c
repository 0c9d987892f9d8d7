#include "many_images.h"

#include "reference/plain.h"

array *repeated(const char *name, int64_t row_size)
{
    array *a = array_input(name, (int64_t)(N_IMAGES * LENGTH + 1) * row_size);
    store_normal(RVIT_F32, a->host, 0, KINDS * LENGTH * row_size / 4, 1);
    for (int64_t i = KINDS; i < N_IMAGES; i++)
        memcpy(a->host + i * LENGTH * row_size, a->host + i % KINDS * LENGTH * row_size, (size_t)(LENGTH * row_size));
    return a;
}

array *uniform_cu(int32_t length)
{
    array *a = array_input("cu_seqlens", (N_IMAGES + 1) * 4);
    for (int32_t i = 0; i <= N_IMAGES; i++) {
        const int32_t row = i * length;
        memcpy(a->host + (int64_t)i * 4, &row, 4);
    }
    return a;
}

void skip_if_emulated(void)
{
    if (H.is_slow && H.desc.backend == RVIT_BACKEND_CUDA)
        skip();
}

void expect_repeated(const array *a, int64_t image_size)
{
    for (int64_t i = KINDS; i < N_IMAGES; i++)
        if (memcmp(a->result[DEVICE] + i * image_size, a->result[DEVICE] + i % KINDS * image_size, (size_t)image_size))
            fail_msg("%s: image %lld is not image %lld", a->name, (long long)i, (long long)(i % KINDS));
    array_expect_untouched(a, DEVICE, N_IMAGES * image_size);
}

static void attention(void **state)
{
    (void)state;
    const int64_t rows = N_IMAGES * LENGTH + 1;
    array *q = repeated("q", DIM * 4), *k = repeated("k", DIM * 4), *v = repeated("v", DIM * 4), *cu = uniform_cu(LENGTH);
    array *out = array_output("out", rows * DIM * 4), *cls_probs = array_output("cls_probs", rows * 4);
    arrays_upload();
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.n_heads = 1;
    args.head_dim = DIM;
    args.max_len = LENGTH;
    args.rows = rows;
    args.scale = 0.5f;
    args.q = array_view(q, DEVICE);
    args.k = array_view(k, DEVICE);
    args.v = array_view(v, DEVICE);
    args.cu_seqlens = array_view(cu, DEVICE);
    args.out = array_view(out, DEVICE);
    args.cls_probs = array_view(cls_probs, DEVICE);
    expect_ok(rvit_attention(H.stream[DEVICE], &args));
    arrays_fetch(DEVICE);
    for (int i = 0; i < KINDS; i++) {
        const float *const inputs[] = {(const float *)(void *)q->host, (const float *)(void *)k->host, (const float *)(void *)v->host};
        const int at = i * LENGTH * DIM;
        attention_problem p = {
            .length = LENGTH, .n_heads = 1, .head_dim = DIM, .scale = 0.5f, .q = inputs[0] + at, .k = inputs[1] + at, .v = inputs[2] + at};
        double exact[LENGTH * DIM], cls[LENGTH], lse[LENGTH];
        float plain[LENGTH * DIM], cls_plain[LENGTH], lse_plain[LENGTH];
        attention_f64(&p, exact, cls, lse);
        attention_f32(&p, plain, cls_plain, lse_plain);
        check_close("attention", RVIT_F32, (const float *)(void *)out->result[DEVICE] + at, exact, plain, LENGTH * DIM);
        check_close("cls_probs", RVIT_F32, (const float *)(void *)cls_probs->result[DEVICE] + i * LENGTH, cls, cls_plain, LENGTH);
    }
    expect_repeated(out, LENGTH * DIM * 4);
    expect_repeated(cls_probs, LENGTH * 4);
}

/* The ops that work on rows, over 280,000 of them. */
static void row_ops(void **state)
{
    (void)state;
    const int64_t rows = N_IMAGES * LENGTH;
    array *x = repeated("x", DIM * 4), *weight = array_input("weight", DIM * DIM * 4), *gamma = array_input("gamma", DIM * 4);
    array *normal = array_output("normal", (rows + 1) * DIM * 4), *product = array_output("product", (rows + 1) * DIM * 4);
    array *grid = array_output("grid", (rows + 1) * DIM * 4), *logits = array_output("logits", (N_IMAGES + 1) * 12);
    array *cu = uniform_cu(LENGTH), *src_rows = array_input("src_rows", rows * 4);
    store_normal(RVIT_F32, weight->host, 0, DIM * DIM, 1);
    store_normal(RVIT_F32, gamma->host, 0, DIM, 1);
    for (int32_t i = 0; i < rows; i++)
        memcpy(src_rows->host + (int64_t)i * 4, &i, 4);
    arrays_upload();
    rvit_layernorm_args layernorm = RVIT_LAYERNORM_ARGS_INIT;
    layernorm.rows.capacity = rows;
    layernorm.dim = DIM;
    layernorm.eps = 1e-6f;
    layernorm.x = array_view(x, DEVICE);
    layernorm.gamma = layernorm.beta = array_view(gamma, DEVICE);
    layernorm.out = array_view(normal, DEVICE);
    expect_ok(rvit_layernorm(H.stream[DEVICE], &layernorm));
    rvit_linear_args linear = RVIT_LINEAR_ARGS_INIT;
    linear.rows.capacity = rows;
    linear.in_features = linear.out_features = DIM;
    linear.x = array_view(x, DEVICE);
    linear.weight = array_view(weight, DEVICE);
    linear.out = array_view(product, DEVICE);
    expect_ok(rvit_linear(H.stream[DEVICE], &linear));
    rvit_unpack_args unpack = RVIT_UNPACK_ARGS_INIT;
    unpack.rows.capacity = unpack.destination_rows.capacity = rows;
    unpack.dim = DIM;
    unpack.source = array_view(x, DEVICE);
    unpack.src_rows = array_view(src_rows, DEVICE);
    unpack.destination = array_view(grid, DEVICE);
    expect_ok(rvit_unpack(H.stream[DEVICE], &unpack));
    rvit_head_args head = RVIT_HEAD_ARGS_INIT;
    head.n_images = N_IMAGES;
    head.rows = rows;
    head.dim = DIM;
    head.n_tokens = 1;
    head.n_classes = 3;
    head.eps = 1e-6f;
    head.x = array_view(x, DEVICE);
    head.cu_seqlens = array_view(cu, DEVICE);
    head.gamma = head.beta = array_view(gamma, DEVICE);
    head.weight = array_view(weight, DEVICE);
    head.logits = array_view(logits, DEVICE);
    expect_ok(rvit_head(H.stream[DEVICE], &head));
    arrays_fetch(DEVICE);
    const float *xs = (const float *)(void *)x->host, *w = (const float *)(void *)weight->host;
    const linear_problem p = {.rows = KINDS * LENGTH, .in_features = DIM, .out_features = DIM, .x = xs, .weight = w};
    double exact[KINDS * LENGTH * DIM];
    float plain[KINDS * LENGTH * DIM];
    linear_f64(&p, exact);
    linear_f32(&p, plain);
    check_close("linear", RVIT_F32, (const float *)(void *)product->result[DEVICE], exact, plain, KINDS * LENGTH * DIM);
    expect_repeated(product, LENGTH * DIM * 4);
    expect_repeated(normal, LENGTH * DIM * 4);
    assert_memory_equal(grid->result[DEVICE], x->host, (size_t)(rows * DIM * 4));
    array_expect_untouched(grid, DEVICE, rows * DIM * 4);
    expect_repeated(logits, 12);
}

SUITE(many_images_suite, TEST(attention), TEST(row_ops));
