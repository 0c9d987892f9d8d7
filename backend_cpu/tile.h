/* The eight AMX tiles, each 16 rows of 64 bytes. Only kernel files of the table "amx" include this; with RVIT_TILE_EMULATED the tiles are
   plain C, which gives the same bits on any processor.

   c += a b: a has 16 rows of 32 bf16 (64 int8); b has 16 lines, each with a pair of bf16 (four int8) for each of 16 columns, so that line i
   and column j hold b[2 i .. 2 i + 1][j]; c is 16 x 16 floats (int32). For bf16 the even k are summed starting from zero, the odd k too,
   each by fused multiply-adds in ascending order, and c += even + odd. Subnormal numbers count as zero. So a row's bits depend neither on
   other rows nor on whether c was stored to memory in between.

   A tile is named by a literal number, 0..7. A thread brackets its use of tiles with tile_begin and tile_end, within one function of a
   kernel file; after tile_begin the tiles are zero. */
#ifndef RVIT_CPU_TILE_H
#define RVIT_CPU_TILE_H

#include <stdint.h>
#include <string.h>

#define TILE_BYTES 1024

#if defined(RVIT_TILE_EMULATED)

typedef union tile_words {
    uint32_t bits[16][16];
    float floats[16][16];
    int32_t sums[16][16];
    int8_t bytes[16][64];
} tile_words;

static _Thread_local tile_words tile_registers[8];

static inline void tile_begin(void)
{
    memset(tile_registers, 0, sizeof tile_registers);
}

static inline void tile_end(void)
{
}

static inline void tile_zero_(int t)
{
    memset(&tile_registers[t], 0, sizeof tile_registers[t]);
}

static inline void tile_load_(int t, const void *from, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy(tile_registers[t].bits[i], (const char *)from + i * stride, 64);
}

static inline void tile_store_(int t, void *to, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy((char *)to + i * stride, tile_registers[t].bits[i], 64);
}

static inline float tile_flushed(float value)
{
    return value > -0x1p-126f && value < 0x1p-126f ? 0.0f : value;
}

static inline float tile_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return tile_flushed(value);
}

/* The product of two bf16 is exact in float32, so adding it is a fused multiply-add. */
static inline void tile_dp_bf16_(int c, int a, int b)
{
    for (int i = 0; i < 16; i++) {
        float even[16] = {0}, odd[16] = {0};
        for (int k = 0; k < 16; k++) {
            const uint32_t pair = tile_registers[a].bits[i][k];
            const float first = tile_float(pair << 16), second = tile_float(pair & 0xffff0000u);
            for (int j = 0; j < 16; j++) {
                const uint32_t line = tile_registers[b].bits[k][j];
                even[j] = tile_flushed(even[j] + first * tile_float(line << 16));
                odd[j] = tile_flushed(odd[j] + second * tile_float(line & 0xffff0000u));
            }
        }
        for (int j = 0; j < 16; j++)
            tile_registers[c].floats[i][j] = tile_flushed(tile_flushed(tile_registers[c].floats[i][j]) + tile_flushed(even[j] + odd[j]));
    }
}

static inline void tile_dp_s8_(int c, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++) {
                int32_t sum = 0;
                for (int byte = 0; byte < 4; byte++)
                    sum += tile_registers[a].bytes[i][4 * k + byte] * tile_registers[b].bytes[k][4 * j + byte];
                tile_registers[c].sums[i][j] += sum;
            }
}

#define tile_zero(t) tile_zero_(t)
#define tile_load(t, from, stride) tile_load_(t, from, stride)
#define tile_store(t, to, stride) tile_store_(t, to, stride)
#define tile_dp_bf16(c, a, b) tile_dp_bf16_(c, a, b)
#define tile_dp_s8(c, a, b) tile_dp_s8_(c, a, b)

#else

/* Inline assembly, because gcc 12's intrinsics declare too small a memory operand: earlier stores may be eliminated. */
static inline void tile_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

static inline void tile_end(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

#define tile_zero(t) __asm__ volatile("tilezero %%tmm" #t : :)
#define tile_load(t, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((int64_t)(stride)) : "memory")
#define tile_store(t, to, stride) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"((void *)(to)), "r"((int64_t)(stride)) : "memory")
#define tile_dp_bf16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define tile_dp_s8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

#endif

#endif
