#!/bin/sh
# usage: cuda_launched.sh FILE...
# Fails if a kernel is not launched by any test. Each FILE was written by the CUDA emulation for a test (RVIT_EMU_LAUNCHED); it lists every
# kernel with its number of launches. Skipped if a test has not run.
set -eu
for file in "$@"; do
    [ -f "$file" ] || { echo "skipped: no $file: its test has not run"; exit 77; }
done
awk '{launched[$1] += $2}
     END {for (kernel in launched) {
              n++
              if (!launched[kernel]) { print "no test launches " kernel; bad = 1 }
          }
          if (!n) { print "no kernel is listed"; bad = 1 }
          if (!bad) print n " kernels, all launched"
          exit bad}' "$@"
