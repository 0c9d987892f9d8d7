/* Linear with weights in panels, by GEMM kernels that keep a block of sums in registers. Only kernel files include this. They first define
     ROWS, BLOCK         rows and columns of a block, at most
     X_BYTES(bytes)      bytes of a prepared row of x
     N_STEPS(bytes)      steps of a kernel for a row of so many bytes
     BLOCK_AT(j)         bytes from a panel to its block from column j on
     prepare_rows        makes a kernel's operand of rows of x; returns x if that is one already
     OFFSETS             1 if a constant is to be subtracted from each column's sums of int8: column_offsets computes it
     gemms_i8            the kernels for 1 to ROWS rows; and gemms_bf16 if RVIT_CPU_DOTS is defined */
#ifndef RVIT_CPU_PANEL_LINEAR_H
#define RVIT_CPU_PANEL_LINEAR_H

#define FINISH_I8(name, activation, adds, dtype)                                          \
    static void finish_i8_##name(const rvit_cpu_linear_tile *t, const panel_block *block) \
    {                                                                                     \
        finish_rows(t, block, (epilogue){1, RVIT_CPU_##activation, adds, RVIT_##dtype});  \
    }
EPILOGUES(FINISH_I8)
#if defined(RVIT_CPU_DOTS)
#define FINISH_BF16(name, activation, adds, dtype)                                          \
    static void finish_bf16_##name(const rvit_cpu_linear_tile *t, const panel_block *block) \
    {                                                                                       \
        finish_rows(t, block, (epilogue){0, RVIT_CPU_##activation, adds, RVIT_##dtype});    \
    }
EPILOGUES(FINISH_BF16)
#endif

typedef void (*finish_fn)(const rvit_cpu_linear_tile *t, const panel_block *block);

INLINE void linear_in_panels(const rvit_cpu_linear_tile *t, float *scratch, const gemm_fn *gemms, finish_fn finish_panel, int integers)
{
    panel_scratch *s = (panel_scratch *)(void *)scratch;
    const int64_t row_bytes = t->in_features * (integers ? 1 : 2), panel_bytes = (row_bytes + 63) / 64 * PAIR;
    /* A chunk is one panel if the panel has to be made here. */
    const int64_t fit = t->arranged ? CHUNK / panel_bytes : 1;
    const int chunk = COLUMNS * (int)(fit < 1 ? 1 : fit);
    for (int first = 0; first < t->columns; first += chunk) {
        const int end = t->columns - first < chunk ? t->columns : first + chunk;
        const char *panels = (const char *)t->weight + first * row_bytes;
        if (!t->arranged) {
            make_panel(panels, row_bytes, end - first, s->panel);
            panels = s->panel;
        }
#if OFFSETS
        for (int column = first; column < end && integers; column += COLUMNS)
            column_offsets(panels + (column - first) / COLUMNS * panel_bytes, row_bytes / 4, s->offsets + column - first);
#endif
        for (int row = 0; row < t->rows; row += ROWS) {
            const int rows = t->rows - row < ROWS ? t->rows - row : ROWS;
            const char *x = prepare_rows((const char *)t->x + row * row_bytes, row_bytes, rows, integers, s->x);
            for (int column = first; column < end; column += COLUMNS) {
                const int columns = end - column < COLUMNS ? end - column : COLUMNS;
                const char *panel = panels + (column - first) / COLUMNS * panel_bytes;
                for (int j = 0; j < COLUMNS; j += BLOCK)
                    gemms[rows - 1](x, X_BYTES(row_bytes), panel + BLOCK_AT(j), N_STEPS(row_bytes), s->sums + j);
#if OFFSETS
                for (int i = 0; i < rows && integers; i++)
                    for (int j = 0; j < COLUMNS; j += VL) {
                        float *sums = s->sums + i * COLUMNS + j;
                        vec_store(sums, (vec)((ivec)vec_load(sums) -
                                              (ivec)vec_load((const float *)(const void *)(s->offsets + column - first + j))));
                    }
#endif
                if (finish_panel != NULL && columns == COLUMNS)
                    finish_panel(t, &(panel_block){s->sums, row, rows, column});
                else
                    finish_any(t, s->sums, row, rows, column, columns, integers);
            }
        }
    }
}

int ISA_NAME(rvit_cpu_arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    return arrange_panels(weight, columns, in_features * rvit_cpu_size(dtype), scratch);
}

void ISA_NAME(rvit_cpu_linear_panels_i8)(const rvit_cpu_linear_tile *t, float *scratch)
{
#define I8(name, activation, adds, dtype) finish_i8_##name,
    static const finish_fn finishes[] = {EPILOGUES(I8)};
    const int number = epilogue_of(t);
    linear_in_panels(t, scratch, gemms_i8, number < 0 ? NULL : finishes[number], 1);
}

#if defined(RVIT_CPU_DOTS)
void ISA_NAME(rvit_cpu_linear_panels_bf16)(const rvit_cpu_linear_tile *t, float *scratch)
{
#define BF16(name, activation, adds, dtype) finish_bf16_##name,
    static const finish_fn finishes[] = {EPILOGUES(BF16)};
    const int number = epilogue_of(t);
    linear_in_panels(t, scratch, gemms_bf16, number < 0 ? NULL : finishes[number], 0);
}
#endif

#endif
