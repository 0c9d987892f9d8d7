/* The activations of linear: with an identity weight, their input is x. */
#include "ops.h"

#include <math.h>

enum { WIDTH = 16 };

static double exactly(rvit_activation activation, double x)
{
    switch (activation) {
    case RVIT_ACTIVATION_NONE:
        break;
    case RVIT_ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case RVIT_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case RVIT_ACTIVATION_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case RVIT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    }
    return x;
}

/* n values, a multiple of WIDTH, go through the op, each with what gate_bias (or NULL) adds to its column; gated: as the gate of a value 1,
   which the bias makes. Returns 0 where the side lacks the type. */
static int pass(side s, rvit_dtype dtype, rvit_activation activation, int gated, const float *values, const float *gate_bias, int n,
                float *results)
{
    const int columns = gated ? 2 * WIDTH : WIDTH;
    const int64_t element = rvit_dtype_size(dtype);
    array *x = array_input("x", n * element), *weight = array_input("weight", columns * WIDTH * element);
    array *bias = array_input("bias", columns * 4), *out = array_output("out", n * element);
    for (int i = 0; i < n; i++)
        store(dtype, x->host, i, values[i]);
    for (int column = 0; column < columns; column++) {
        const int is_value = gated && column % 2, output = gated ? column / 2 : column;
        for (int i = 0; i < WIDTH; i++)
            store(dtype, weight->host, column * WIDTH + i, !is_value && i == output);
        store(RVIT_F32, bias->host, column, is_value ? 1 : gate_bias == NULL ? 0 : gate_bias[output]);
    }
    arrays_upload();
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = dtype;
    args.rows.capacity = n / WIDTH;
    args.in_features = args.out_features = WIDTH;
    args.activation = activation;
    args.gated = gated;
    args.x = array_view(x, s);
    args.weight = array_view(weight, s);
    args.bias = array_view(bias, s);
    args.out = array_view(out, s);
    const int is_there = supported(s, type_feature(dtype), rvit_linear(H.stream[s], &args));
    if (is_there) {
        arrays_fetch(s);
        for (int i = 0; i < n; i++)
            results[i] = load(dtype, out->result[s], i);
    }
    harness_teardown(NULL);
    return is_there;
}

/* To the digits of the specification. The two GELUs differ by 4e-4 at -3. */
static void activation_vectors(void **state)
{
    (void)state;
    static const float in[WIDTH] = {-3, -1, -0.5f, 0.5f, 1, 3};
    static const double wanted[][6] = {
        {-0.00404969, -0.15865525, -0.15426877, 0.34573123, 0.84134475, 2.99595031},
        {-0.00363739, -0.15880801, -0.15428599, 0.34571401, 0.84119199, 2.99636261},
        {-0.01807131, -0.15420423, -0.14961156, 0.35038844, 0.84579577, 2.98192869},
        {-0.14227762, -0.26894142, -0.18877033, 0.31122967, 0.73105858, 2.85772238},
    };
    for (rvit_activation a = RVIT_ACTIVATION_GELU; a <= RVIT_ACTIVATION_SILU; a++)
        for (int gated = 0; gated < 2; gated++)
            for (side s = 0; (int)s < H.n_sides; s++) {
                float got[WIDTH];
                assert_true(pass(s, RVIT_F32, a, gated, in, NULL, WIDTH, got));
                for (int i = 0; i < WIDTH; i++)
                    if (!(fabs(got[i] - (i < 6 ? wanted[a - 1][i] : 0)) <= 3e-7))
                        fail_msg("activation %d of %g is %.9g, should be %.9g", (int)a, (double)in[i], (double)got[i],
                                 i < 6 ? wanted[a - 1][i] : 0);
            }
}

/* The whole range where they bend, in small steps, and far outside of it. */
static void activation_sweep(void **state)
{
    (void)state;
    enum { N = 8192 };
    static const float far[] = {1e-30f, 1e-6f, 20, 40, 50, 87, 88.5f, 90, 104, 128, 200, 1e4f, 6e4f, 1e9f, 1e13f, 1e19f, 1e30f, 3e38f};
    static float values[N], got[N];
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (rvit_activation a = RVIT_ACTIVATION_GELU; a <= RVIT_ACTIVATION_SILU; a++) {
            if (leaves_out(t + (int)a, 2))
                continue;
            const rvit_dtype dtype = stored_types[t];
            for (int i = 0; i < N; i++)
                values[i] = rounded(dtype, (float)(i - N / 2) * 0.002f);
            for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
                if (dtype != RVIT_F16 || far[i] <= 6e4f) {
                    values[100 + 2 * i] = rounded(dtype, far[i]);
                    values[101 + 2 * i] = rounded(dtype, -far[i]);
                }
            /* Half a unit of the stored type comes on top of the error in float32. */
            const double unit = dtype == RVIT_F32 ? 2e-7 : dtype == RVIT_F16 ? 0x1.02p-11 : 0x1.02p-8;
            for (side s = 0; (int)s < H.n_sides; s++) {
                if (!pass(s, dtype, a, 0, values, NULL, N, got))
                    continue;
                for (int i = 0; i < N; i++) {
                    const double wanted = exactly(a, values[i]);
                    if (!(fabs(got[i] - wanted) <= (dtype == RVIT_F32 ? 3e-7 : 9e-7) + unit * fabs(wanted)))
                        fail_msg("activation %d of %.9g (%s) is %.9g, should be %.9g", (int)a, (double)values[i],
                                 rvit_enum_name(RVIT_ENUM_DTYPE, dtype), (double)got[i], wanted);
                }
            }
        }
}

/* NaN and infinity stay what they are, gate or not, but for what GELU may make of infinity; minus infinity gives 0 or NaN. They come from
   the bias, and touch no other column. */
static void activation_specials(void **state)
{
    (void)state;
    static const float zeros[WIDTH] = {0}, bias[WIDTH] = {NAN, INFINITY, -INFINITY, 1};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (rvit_activation a = RVIT_ACTIVATION_GELU; a <= RVIT_ACTIVATION_SILU; a++)
            for (int gated = 0; gated < 2; gated++) {
                if (leaves_out(t + (int)a + gated, 2))
                    continue;
                for (side s = 0; (int)s < H.n_sides; s++) {
                    float got[WIDTH];
                    if (!pass(s, stored_types[t], a, gated, zeros, bias, WIDTH, got))
                        continue;
                    const int is_infinite = got[1] == INFINITY || (a == RVIT_ACTIVATION_GELU && isnan(got[1]));
                    if (!isnan(got[0]) || !is_infinite || !(isnan(got[2]) || got[2] == 0) || !(fabs(got[3] - exactly(a, 1)) < 4e-3) ||
                        got[4] != 0)
                        fail_msg("%s, activation %d, gated %d: %g %g %g %g %g", rvit_enum_name(RVIT_ENUM_DTYPE, stored_types[t]), (int)a,
                                 gated, (double)got[0], (double)got[1], (double)got[2], (double)got[3], (double)got[4]);
                }
            }
}

SUITE(activation_vectors_suite, TEST(activation_vectors), TEST(activation_sweep), TEST(activation_specials));
