#!/usr/bin/env bash
# Checks the table of registers that a build with the CUDA backend writes: no kernel spills (the CTAs that an SM must have registers for,
# of tile.h, are each kernel's launch bounds, to which the compiler keeps, by spilling if it must), and the float16 attention kernel for 64
# channels a head keeps within 128 registers; two of its CTAs of 4 warps at 197 tokens fit an SM of architecture 89, of the one for large
# batches too. Two CTAs of 512 threads of the kernels that make rows of e4m3 fit any SM, and two of 128 threads of the one that multiplies
# them. On architecture 90 no kernel of a forward is so long that its instructions, which come from memory, take longer than its work; the
# limits are a little above what was measured (bench/notes/cuda-small.md).
#   tools/check_cuda_registers.sh BUILD/backend_cuda/registers.txt
set -euo pipefail
table=${1:?usage: $0 registers.txt}
awk '
    /^#/ { next }
    { n++; archs[$2] = 1 }
    $2 == 90 && $6 ~ /^[0-9]+$/ && $1 !~ /backward|^received|_general$/ {
        most = 3700 # of 16 bytes each
        if ($1 == "match_rows") most = 3800
        if ($1 == "select_rows") most = 5800
        if ($1 ~ /^preprocess_/) most = 5000
        if ($1 ~ /^linear_/) most = 3900
        if ($1 ~ /^linear_(bf16|f16)_hopper/) most = 5400 # unrolled: bench/notes/cuda-fp8.md
        if ($1 ~ /^attention_/) most = 10600
        if ($6 > most) { print "has " $6 " instructions, " most " are allowed: " $1 " on sm_" $2; bad = 1 }
        measured = 1
    }
    $2 == 90 { seen_90 = 1 }
    $4 > 0 { print "spills " $4 " bytes: " $1 " on sm_" $2; bad = 1 }
    $1 ~ /^quantize_/ { makes[$2] = 1; most = 64 }
    $1 ~ /^linear_e4m3_/ { multiplies[$2] = 1; most = 255 }
    $1 ~ /^(quantize|linear_e4m3)_/ && $3 > most { print "uses " $3 " registers, " most " are allowed: " $1 " on sm_" $2; bad = 1 }
    $1 == "attention_f16_d64" || $1 == "attention_f16_d64_32_rows" {
        if ($1 == "attention_f16_d64" && $3 > 128) { print "uses " $3 " registers, 128 are allowed: " $1 " on sm_" $2; bad = 1 }
        # Registers are given to a warp in units of 256.
        ctas = int(65536 / (4 * int(($3 * 32 + 255) / 256) * 256))
        shared = int(102400 / (3 * 2 * 64 * 128 + 1024))
        if ($2 == 89 && (ctas < 2 || shared < 2)) { print "fewer than 2 CTAs on an SM: " $1 " on sm_" $2; bad = 1 }
        seen[$2] = 1
    }
    END {
        if (!n) { print "the table is empty"; bad = 1 }
        for (arch in archs)
            if (!makes[arch] || !multiplies[arch]) { print "no kernels for e4m3 on sm_" arch; bad = 1 }
        if (!seen[89]) print "architecture 89 is not in this build: its occupancy is not checked"
        if (seen_90 && !measured) print "readelf was not there: the lengths of the kernels are not checked"
        if (!bad) print n " kernels and architectures checked"
        exit bad
    }' "$table"
