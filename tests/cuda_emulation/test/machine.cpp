/* Tests that the machine behaves like a device in every order of threads. */
#include <math.h>

#include "runtime/half.h"
#include "session.h"

namespace
{
const long SEEDS = 12;

uint32_t random_state = 1;

uint32_t random_bits()
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

std::vector<float> random_floats(size_t n)
{
    std::vector<float> x(n);
    for (float &v : x)
        v = (float)(int)(random_bits() % 2001) / 1000.0f - 1.0f;
    return x;
}

std::vector<int> random_ints(size_t n)
{
    std::vector<int> x(n);
    for (int &v : x)
        v = (int)(random_bits() % 100);
    return x;
}

/* A missing barrier must show in some order; with the barrier, results must be right in all. */
void barriers()
{
    session s;
    std::vector<float> in = random_floats(4 * 128), expected(4, 0.0f);
    for (float &v : in)
        v = rintf(v * 100.0f); /* sums are exact in any order */
    for (size_t i = 0; i < in.size(); i++)
        expected[i / 128] += in[i];
    const std::vector<int> numbers = random_ints(64);
    int wrong_sums = 0, wrong_passes = 0;
    for (long seed = 0; seed < SEEDS; seed++) {
        set("RVIT_EMU_SEED", seed);
        test_params p = {};
        p.in = s.device(in);
        p.out = s.device<float>(4);
        CHECK(s.run("sum", 4, 128, 128 * 4, p) == CUDA_SUCCESS);
        CHECK(s.host(static_cast<float *>(p.out), 4) == expected);
        p.option = 1;
        CHECK(s.run("sum", 4, 128, 128 * 4, p) == CUDA_SUCCESS);
        wrong_sums += s.host(static_cast<float *>(p.out), 4) != expected;
        p.in = s.device(numbers);
        p.out = s.device<int>(64);
        for (p.option = 0; p.option < 2; p.option++) {
            CHECK(s.run("pass", 1, 64, 0, p) == CUDA_SUCCESS);
            const std::vector<int> got = s.host(static_cast<int *>(p.out), 64);
            bool right = true;
            for (size_t i = 0; i < 64; i++)
                right = right && got[i] == numbers[i / 32 * 32 + (i + 1) % 32];
            CHECK(right || p.option == 1);
            wrong_passes += !right;
        }
    }
    unsetenv("RVIT_EMU_SEED");
    CHECK(wrong_sums > 0);
    CHECK(wrong_passes > 0);
    printf("missing block barrier detected in %d of %ld orders, missing warp barrier in %d\n", wrong_sums, SEEDS, wrong_passes);
}

void poisoned()
{
    session s;
    test_params p = {};
    p.out = s.device<float>(64);
    for (int round = 0; round < 2; round++) { /* the second block must not see the memory of the first */
        CHECK(s.run("unwritten", 1, 32, 128, p) == CUDA_SUCCESS);
        for (float v : s.host(static_cast<float *>(p.out), 64))
            CHECK(v != v);
    }
}

void shuffles()
{
    session s;
    test_params p = {};
    p.out = s.device<int>(96 * 6);
    for (long seed = 0; seed < 4; seed++) {
        set("RVIT_EMU_SEED", seed);
        CHECK(s.run("shuffles", 1, 96, 0, p) == CUDA_SUCCESS);
        const std::vector<int> got = s.host(static_cast<int *>(p.out), 96 * 6);
        for (int i = 0; i < 96; i++) {
            const int base = i / 32 * 32, lane = i % 32, *out = &got[(size_t)i * 6];
            const float mirrored = (float)(base + 31 - lane);
            unsigned ballot = 0;
            for (int j = 0; j < 32; j++)
                ballot |= (unsigned)((base + j) % 3 == 0) << j;
            CHECK(out[0] == base + (lane * 7 + 3) % 32);
            CHECK(out[1] == base + (lane ^ 5));
            CHECK(out[2] == (lane >= 3 ? i - 3 : i));
            CHECK(out[3] == (lane < 28 ? i + 4 : i));
            CHECK(memcmp(&out[4], &mirrored, 4) == 0);
            CHECK((unsigned)out[5] == ballot);
        }
    }
    unsetenv("RVIT_EMU_SEED");
}

/* Compared with a plain loop, in f16 and bf16, with B stored by rows and by columns. */
void check_mma()
{
    session s;
    for (int option = 0; option < 4; option++) {
        std::vector<uint16_t> a(16 * 16), b(16 * 8);
        const std::vector<float> c = random_floats(16 * 8), x = random_floats(a.size()), y = random_floats(b.size());
        const bool bf16 = option & 2;
        for (size_t i = 0; i < a.size(); i++)
            a[i] = bf16 ? emu::f32_to_bf16(x[i]) : emu::f32_to_f16(x[i]);
        for (size_t i = 0; i < b.size(); i++)
            b[i] = bf16 ? emu::f32_to_bf16(y[i]) : emu::f32_to_f16(y[i]);
        test_params p = {};
        p.in = s.device(a);
        p.other = s.device(b);
        p.out = s.device(c);
        p.option = option;
        CHECK(s.run("matrix", 1, 32, 16 * 32 + 16 * 16, p) == CUDA_SUCCESS);
        const std::vector<float> got = s.host(static_cast<float *>(p.out), 16 * 8);
        for (size_t i = 0; i < 16; i++)
            for (size_t j = 0; j < 8; j++) {
                double sum = c[i * 8 + j];
                for (size_t k = 0; k < 16; k++) {
                    const uint16_t left = a[i * 16 + k], right = option & 1 ? b[j * 16 + k] : b[k * 8 + j];
                    sum += bf16 ? (double)emu::bf16_to_f32(left) * emu::bf16_to_f32(right)
                                : (double)emu::f16_to_f32(left) * emu::f16_to_f32(right);
                }
                CHECK(fabs(got[i * 8 + j] - sum) < 4e-6);
            }
    }
}

void check_mma_u8()
{
    session s;
    for (int option = 0; option < 2; option++) {
        std::vector<uint8_t> a(16 * 32), b(8 * 32);
        std::vector<int> d(16 * 8 + 16 * 4);
        for (size_t i = 0; i < a.size(); i++)
            a[i] = (uint8_t)(i * 2654435761u >> 24);
        for (size_t i = 0; i < b.size(); i++)
            b[i] = (uint8_t)(i * 2246822519u >> 23);
        for (size_t i = 0; i < d.size(); i++)
            d[i] = i == 5 ? INT32_MAX - 3 : (int)i * 100 - 7000; /* sums wrap */
        test_params p = {};
        p.in = s.device(a);
        p.other = s.device(b);
        p.out = s.device(d);
        p.option = option;
        CHECK(s.run("matrix_u8", 1, 32, 0, p) == CUDA_SUCCESS);
        const std::vector<int> got = s.host(static_cast<int *>(p.out), d.size());
        for (size_t i = 0; i < 16; i++)
            for (size_t j = 0; j < 8; j++) {
                uint32_t sum = (uint32_t)d[i * 8 + j];
                for (size_t k = 0; k < 32; k++)
                    sum += (uint32_t)(a[i * 32 + k] * (option ? (int8_t)b[j * 32 + k] : b[j * 32 + k]));
                CHECK((uint32_t)got[i * 8 + j] == sum);
                const int byte = (int)sum >> 8, nearest = byte < 0 ? 0 : byte > 255 ? 255 : byte;
                CHECK((got[128 + i * 4 + j / 2] >> j % 2 * 8 & 255) == nearest);
            }
    }
}

/* Tensor core sums: a product far below the largest is truncated; d, which is added afterwards, is not. */
void check_mma_e4m3()
{
    session s;
    std::vector<uint8_t> a(16 * 32), b(8 * 32);
    std::vector<float> d(16 * 8 + 32 + 32);
    for (size_t i = 0; i < a.size(); i++)
        a[i] = emu::f32_to_e4m3((float)(i * 2654435761u >> 24) - 128.0f);
    for (size_t i = 0; i < b.size(); i++)
        b[i] = emu::f32_to_e4m3((float)(i * 2246822519u >> 25) / 64.0f);
    for (size_t i = 0; i < 16 * 8; i++)
        d[i] = (float)i / 1024.0f;
    for (size_t k = 2; k < 32; k++) /* row 0 */
        a[k] = 0;
    a[0] = emu::f32_to_e4m3(256.0f), a[1] = emu::f32_to_e4m3(0.015625f);
    b[0] = emu::f32_to_e4m3(256.0f), b[1] = emu::f32_to_e4m3(0.5f); /* 2^16 and 2^-7, more than 13 bits below */
    d[0] = 0.0078125f;
    a[15 * 32] = 0x7f;
    test_params p = {};
    p.in = s.device(a);
    p.other = s.device(b);
    p.out = s.device(d);
    CHECK(s.run("matrix_e4m3", 1, 32, 0, p) == CUDA_SUCCESS);
    const std::vector<float> got = s.host(static_cast<float *>(p.out), d.size());
    CHECK(got[0] == 65536.0078125f);
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < 8; j++) {
            double sum = d[i * 8 + j], largest = 0;
            for (size_t k = 0; k < 32; k++) {
                const double product = (double)emu::e4m3_to_f32(a[i * 32 + k]) * emu::e4m3_to_f32(b[j * 32 + k]);
                sum += product;
                largest = fmax(largest, fabs(product));
            }
            const float x = got[i * 8 + j];
            CHECK(i == 15 ? std::isnan(x) : fabs(x - sum) <= 32 * ldexp(largest, -13));
            const size_t lane = i % 8 * 4 + j / 2, byte = i / 8 * 2 + j % 2;
            uint32_t bytes;
            memcpy(&bytes, &got[128 + lane], 4);
            CHECK((bytes >> (8 * byte) & 255) == emu::f32_to_e4m3(x));
        }
    for (size_t lane = 0; lane < 32; lane++)
        CHECK(std::isnan(got[160 + lane]));
}

/* e4m3: round trip of every value, ties to even, saturation, NaN. */
void e4m3_conversions()
{
    CHECK(emu::e4m3_to_f32(0x7e) == 448.0f && emu::e4m3_to_f32(0x38) == 1.0f && emu::e4m3_to_f32(1) == 0.001953125f);
    for (int i = 0; i < 256; i++) {
        const float x = emu::e4m3_to_f32((uint8_t)i);
        CHECK(x != x ? (i & 127) == 127 && emu::f32_to_e4m3(x) == 0x7f : emu::f32_to_e4m3(x) == i);
        if ((i & 127) >= 126)
            continue;
        const float next = emu::e4m3_to_f32((uint8_t)(i + 1)), middle = (x + next) / 2;
        CHECK(emu::f32_to_e4m3(middle) == i + (i & 1));
        CHECK(emu::f32_to_e4m3(nextafterf(middle, x)) == i);
        CHECK(emu::f32_to_e4m3(nextafterf(middle, next)) == i + 1);
    }
    CHECK(emu::f32_to_e4m3(500.0f) == 0x7e && emu::f32_to_e4m3(-INFINITY) == 0xfe && emu::f32_to_e4m3(-0.0f) == 0x80);
}

/* f16: round trip of every value; f32 to f16 and bf16: ties to even, overflow, NaN. */
void halves()
{
    for (uint32_t i = 0; i < 65536; i++) {
        const float x = emu::f16_to_f32((uint16_t)i), y = emu::bf16_to_f32((uint16_t)i);
        CHECK(x != x ? emu::f32_to_f16(x) == 0x7fff : emu::f32_to_f16(x) == i);
        CHECK(y != y ? emu::f32_to_bf16(y) == 0x7fff : emu::f32_to_bf16(y) == i);
        const double magnitude = (i & 0x7fff) < 0x400 ? (i & 0x3ff) * pow(2, -24) : (1024 + (i & 0x3ff)) * pow(2, (int)(i >> 10 & 31) - 25);
        CHECK((i & 0x7fff) > 0x7c00 ? x != x : (i & 0x7fff) == 0x7c00 ? isinf(x) : x == (i & 0x8000 ? -magnitude : magnitude));
        if ((i & 0x7fff) < 0x7bff) {
            const float next = emu::f16_to_f32((uint16_t)(i + 1)), middle = x + (next - x) / 2;
            CHECK(emu::f32_to_f16(middle) == i + (i & 1));
            CHECK(emu::f32_to_f16(nextafterf(middle, x)) == i);
            CHECK(emu::f32_to_f16(nextafterf(middle, next)) == i + 1);
        }
    }
    CHECK(emu::f32_to_f16(65519.0f) == 0x7bff && emu::f32_to_f16(65520.0f) == 0x7c00 && emu::f32_to_f16(-1e30f) == 0xfc00);
    CHECK(emu::f32_to_bf16(1.00390625f) == 0x3f80 && emu::f32_to_bf16(1.01171875f) == 0x3f82 && emu::f32_to_bf16(3.4e38f) == 0x7f80);
}

/* Copies that were waited for have arrived, others are poison, invalid ones are zero; a stage is not refilled while it is read. */
void copies()
{
    session s;
    const int n = 64;
    const std::vector<float> in = random_floats(8 * n * 2);
    test_params p = {};
    p.in = s.device(in);
    p.out = s.device<float>(4 * n);
    int wrong_rings = 0;
    for (long seed = 0; seed < SEEDS; seed++) {
        set("RVIT_EMU_SEED", seed);
        for (p.option = 0; p.option < 3; p.option++) {
            CHECK(s.run("async", 1, n, 4 * n * 4, p) == CUDA_SUCCESS);
            const std::vector<float> got = s.host(static_cast<float *>(p.out), 4 * n);
            for (int i = 0; i < 4 * n; i++) {
                const int group = i / (2 * n), from = (i + 2) % (2 * n);
                const float expected = from >= 2 * n - 2 ? 0.0f : in[(size_t)(group * 2 * n + from)];
                CHECK(group + p.option < 2 ? got[(size_t)i] == expected : got[(size_t)i] != got[(size_t)i]);
            }
        }
        p.n = 8;
        for (p.option = 0; p.option < 2; p.option++) {
            CHECK(s.run("ring", 1, n, n * 8, p) == CUDA_SUCCESS);
            const std::vector<float> got = s.host(static_cast<float *>(p.out), n);
            bool right = true;
            for (int i = 0; i < n; i++) {
                float sum = 0.0f;
                for (int round = 0; round < p.n; round++)
                    sum += in[(size_t)(round * n * 2 + (i * 2 + 64) % (2 * n))];
                right = right && got[(size_t)i] == sum;
            }
            CHECK(right || p.option == 1);
            wrong_rings += !right;
        }
    }
    unsetenv("RVIT_EMU_SEED");
    CHECK(wrong_rings > 0);
    printf("early refill of a stage detected in %d of %ld orders\n", wrong_rings, SEEDS);
}

/* Blocks in any order and on several OS threads: tickets prevent endless waits. */
void scans()
{
    session s;
    for (long threads = 1; threads <= 3; threads++)
        for (long seed = 0; seed < SEEDS; seed++) {
            set("RVIT_EMU_THREADS", threads);
            set("RVIT_EMU_SEED", seed);
            const int n = 1000 + (int)seed * 37, blocks = (n + 95) / 96;
            const std::vector<int> in = random_ints((size_t)n);
            test_params p = {};
            p.in = s.device(in);
            p.out = s.device<int>((size_t)n);
            p.n = n;
            p.states = s.device(std::vector<unsigned long long>((size_t)blocks, 0));
            p.counter = s.device(std::vector<int>(1, 0));
            CHECK(s.run("scan", (unsigned)blocks, 96, 0, p) == CUDA_SUCCESS);
            const std::vector<int> got = s.host(static_cast<int *>(p.out), (size_t)n);
            int sum = 0;
            for (int i = 0; i < n; i++)
                CHECK(got[(size_t)i] == (sum += in[(size_t)i]));
        }
    unsetenv("RVIT_EMU_THREADS");
    unsetenv("RVIT_EMU_SEED");
}
void spins()
{
    session s;
    for (long seed = 0; seed < 4; seed++) {
        set("RVIT_EMU_SEED", seed);
        test_params p = {};
        p.states = s.device(std::vector<unsigned long long>(1, 0));
        p.out = s.device<int>(100);
        CHECK(s.run("spin", 1, 100, 0, p) == CUDA_SUCCESS);
        CHECK(s.host(static_cast<int *>(p.out), 100) == std::vector<int>(100, 1));
    }
    unsetenv("RVIT_EMU_SEED");
}
} // namespace

void test_machine()
{
    barriers();
    poisoned();
    shuffles();
    check_mma();
    check_mma_u8();
    check_mma_e4m3();
    e4m3_conversions();
    halves();
    copies();
    scans();
    spins();
}
