#!/usr/bin/env bash
# Checks the table of registers that a build with the CUDA backend writes: no kernel spills, and the float16 attention kernel for 64
# channels a head keeps within 128 registers; two of its CTAs of 4 warps at 197 tokens fit an SM of architecture 89, of the one for large
# batches too.
#   tools/check_cuda_registers.sh BUILD/backend_cuda/registers.txt
set -euo pipefail
table=${1:?usage: $0 registers.txt}
awk '
    /^#/ { next }
    { n++ }
    $4 > 0 { print "spills " $4 " bytes: " $1 " on sm_" $2; bad = 1 }
    $1 == "attention_f16_d64" || $1 == "attention_f16_d64_tall" {
        if ($1 == "attention_f16_d64" && $3 > 128) { print "uses " $3 " registers, 128 are allowed: " $1 " on sm_" $2; bad = 1 }
        # Registers are given to a warp in units of 256.
        ctas = int(65536 / (4 * int(($3 * 32 + 255) / 256) * 256))
        shared = int(102400 / (3 * 2 * 64 * 128 + 1024))
        if ($2 == 89 && (ctas < 2 || shared < 2)) { print "fewer than 2 CTAs on an SM: " $1 " on sm_" $2; bad = 1 }
        seen[$2] = 1
    }
    END {
        if (!n) { print "the table is empty"; bad = 1 }
        if (!seen[89]) print "architecture 89 is not in this build: its occupancy is not checked"
        if (!bad) print n " kernels and architectures checked"
        exit bad
    }' "$table"
