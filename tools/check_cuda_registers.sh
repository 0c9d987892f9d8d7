#!/usr/bin/env bash
# Checks the register table that a build with the CUDA backend writes:
# * No kernel spills. The CTAs per SM in tile.h are launch bounds, and the compiler spills if a kernel needs more registers than they allow.
# * The float16 attention kernel with head_dim 64 uses at most 128 registers. An SM of architecture 89 holds two of its CTAs of 4 warps
#   at 197 tokens, and two CTAs of the kernel for large batches.
# * Any SM holds two CTAs of 512 threads of the kernels that quantize to e4m3, and two CTAs of 128 threads of the e4m3 GEMM.
# * On architecture 90, no kernel of a forward pass has so much code that fetching it takes longer than the work. The limits are
#   slightly above the measured lengths (bench/notes/cuda-forward.md).
#   tools/check_cuda_registers.sh BUILD/backend_cuda/registers.txt
set -euo pipefail
table=${1:?usage: $0 registers.txt}
awk '
    /^#/ { next }
    { n++; archs[$2] = 1 }
    $2 == 90 && $6 ~ /^[0-9]+$/ && $1 !~ /backward|received|_general$/ {
        most = 3700 # instructions of 16 bytes
        if ($1 ~ /match_rows$/) most = 3800
        if ($1 == "select_rows") most = 5800
        if ($1 ~ /^preprocess_/) most = 5000
        if ($1 ~ /^linear_/) most = 3900
        if ($1 ~ /^linear_(bf16|f16)_hopper/) most = 5400 # unrolled: bench/notes/cuda-fp8.md
        if ($1 ~ /^attention_/) most = 10600
        if ($6 > most) { print "has " $6 " instructions, at most " most " allowed: " $1 " on sm_" $2; bad = 1 }
        measured = 1
    }
    $2 == 90 { seen_90 = 1 }
    $4 > 0 { print "spills " $4 " bytes: " $1 " on sm_" $2; bad = 1 }
    $1 ~ /^quantize_/ { makes[$2] = 1; most = 64 }
    $1 ~ /^linear_e4m3_/ { multiplies[$2] = 1; most = 255 }
    $1 ~ /^(quantize|linear_e4m3)_/ && $3 > most { print "uses " $3 " registers, at most " most " allowed: " $1 " on sm_" $2; bad = 1 }
    $1 == "attention_f16_d64" || $1 == "attention_f16_d64_32_rows" {
        if ($1 == "attention_f16_d64" && $3 > 128) { print "uses " $3 " registers, at most 128 allowed: " $1 " on sm_" $2; bad = 1 }
        # A warp gets registers in units of 256.
        ctas = int(65536 / (4 * int(($3 * 32 + 255) / 256) * 256))
        shared = int(102400 / (3 * 2 * 64 * 128 + 1024))
        if ($2 == 89 && (ctas < 2 || shared < 2)) { print "fewer than 2 CTAs on an SM: " $1 " on sm_" $2; bad = 1 }
        seen[$2]++
    }
    END {
        if (!n) { print "the table is empty"; bad = 1 }
        for (arch in archs)
            if (!makes[arch] || !multiplies[arch]) { print "no e4m3 kernels on sm_" arch; bad = 1 }
        for (arch in seen)
            if (seen[arch] != 2) { print "attention_f16_d64 and attention_f16_d64_32_rows are not both built for sm_" arch; bad = 1 }
        if (!seen[89]) print "occupancy on architecture 89 not checked: it is not in this build"
        if (seen_90 && !measured) print "kernel lengths not checked: readelf was not found"
        if (!bad) print n " kernels and architectures checked"
        exit bad
    }' "$table"
