// The loop of attention_matrix.comp over the blocks of keys: results and totals of a tile. It is included once for every tile (FIRST_PASS
// 1: the reference is the maximum of the first block) and once for those that need it (0: the reference is given), since NVIDIA's compiler
// makes a slower loop of one that may run twice.
fetch(tile, 0, k_next, v_next);
[[unroll]] for (uint d = 0; d < ROWS * OUT_PARTS; d++)
    results[d] = MATRIX_SUM(0.0);
[[unroll]] for (uint r = 0; r < ROWS; r++)
    totals[r] = MATRIX_SUM(0.0);
barrier();
stage(tile, 0, k_next, v_next);
stage_key_values(tile, 0);
barrier();

for (uint first_key = 0; first_key < len; first_key += KEYS) {
    const uint parity = first_key / KEYS % 2;
    const uint block_at = parity * BLOCK;
    const bool fetches = IN_FLIGHT || first_key + KEYS < len;
    if (fetches)
        fetch(tile, first_key + KEYS, k_next, v_next);

    MATRIX_SUM logits[ROWS * KEY_PARTS];
    [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
        MATRIX_SUM added;
        coopMatLoad(added, key_values, parity * KEYS + c * MATRIX_N, 0, ROW_MAJOR);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            if (HAS_BIAS)
                logits[r * KEY_PARTS + c] = MATRIX_SUM(0.0);
            else
                logits[r * KEY_PARTS + c] = added;
        [[unroll]] for (uint d = 0; d < Q_PARTS; d++) {
            MATRIX_B k;
            coopMatLoad(k, staged, block_at + c * MATRIX_N * STEP8 + d * MATRIX_K / 8, STEP8, COLUMN_MAJOR);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                logits[r * KEY_PARTS + c] = coopMatMulAdd(q[r * Q_PARTS + d], k, logits[r * KEY_PARTS + c]);
        }
        if (HAS_BIAS) // rounded but once: in the product it would be at every step
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                for (int i = 0; i < added.length(); i++)
                    logits[r * KEY_PARTS + c][i] = fma(logits[r * KEY_PARTS + c][i], log_scale, added[i]);
    }
    if (HAS_CLS_PROBS)
        [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
            coopMatStore(logits[c], own, own_at, SUM_STEP, ROW_MAJOR);
            subgroupBarrier();
            for (uint key = gl_SubgroupInvocationID; key < MATRIX_N; key += SUBGROUP)
                if (keeps_cls && first_key + c * MATRIX_N + key < len)
                    cls_probs[cls_probs_at(tile, first_key + c * MATRIX_N + key)] =
                        uintBitsToFloat(own[own_at + key / 4][key % 4]);
            subgroupBarrier();
        }
    if (FIRST_PASS != 0 && first_key == 0)
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint row_at = first_row + r * MATRIX_M;
            MATRIX_SUM peak = logits[r * KEY_PARTS];
            for (int i = 0; i < peak.length(); i++)
                [[unroll]] for (uint c = 1; c < KEY_PARTS; c++)
                    peak[i] = max(peak[i], logits[r * KEY_PARTS + c][i]);
            coopMatStore(peak, own, own_at, SUM_STEP, ROW_MAJOR);
            subgroupBarrier();
            [[unroll]] for (uint i = 0; i < PASSES; i++) {
                row_reference[r * PASSES + i] = max(largest_of_row(own_at, i) * scale, least);
                row_values[row_at + line + i * ROW_STEP] = row_reference[r * PASSES + i];
            }
            subgroupBarrier();
            coopMatLoad(reference[r], row_values, row_at, 0, COLUMN_MAJOR);
            subgroupBarrier();
        }

    MATRIX_A weights[ROWS * WEIGHT_PARTS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint weights_at = own_at + r % OWN_ROWS * OWN;
        [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
            const uint at = r * KEY_PARTS + c;
            for (int i = 0; i < logits[at].length(); i++) {
                logits[at][i] = exp2(fma(logits[at][i], scale, -reference[r][i]));
                totals[r][i] += logits[at][i];
            }
#if MATRIX_BF16
            coopMatStore(logits[at], own, weights_at, SUM_STEP, ROW_MAJOR);
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * N8; i += SUBGROUP)
                own[weights_at + WEIGHTS_AT + i / N8 * WEIGHT_STEP + c * N8 + i % N8] = rounded_unit(weights_at, i);
            subgroupBarrier();
#else
            const MATRIX_HALF rounded = MATRIX_HALF(logits[at]);
            if (IN_PLACE)
                for (int i = 0; i < rounded.length(); i++)
                    weights[r * WEIGHT_PARTS + c % WEIGHT_PARTS][i] = rounded[i];
            else
                coopMatStore(rounded, own, weights_at + c * MATRIX_N / 8, WEIGHT_STEP, ROW_MAJOR);
#endif
        }
    }
    if (!IN_PLACE) {
        subgroupBarrier();
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            [[unroll]] for (uint c = 0; c < WEIGHT_PARTS; c++)
                coopMatLoad(weights[r * WEIGHT_PARTS + c], own, own_at + r % OWN_ROWS * OWN + WEIGHTS_AT + c * MATRIX_K / 8,
                            WEIGHT_STEP, ROW_MAJOR);
    }
    [[unroll]] for (uint c = 0; c < WEIGHT_PARTS; c++) {
        [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
            MATRIX_B v;
            coopMatLoad(v, staged, block_at + (KEYS + c * MATRIX_K) * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                results[r * OUT_PARTS + d] = coopMatMulAdd(weights[r * WEIGHT_PARTS + c], v, results[r * OUT_PARTS + d]);
        }
    }
    if (fetches) {
        stage(tile, first_key + KEYS, k_next, v_next);
        stage_key_values(tile, first_key + KEYS);
    }
    barrier();
}
