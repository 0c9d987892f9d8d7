#!/bin/sh
# usage: cuda_launched.sh FILE...
# Fails if there is a kernel that no test launches. Each FILE is what the CUDA emulation wrote of a test (RVIT_EMU_LAUNCHED): lines of a
# kernel and how often it was launched. Skipped where a test has not run.
set -eu
for file in "$@"; do
    [ -f "$file" ] || { echo "skipped: there is no $file: its test has not run"; exit 77; }
done
awk '{launched[$1] += $2}
     END {for (kernel in launched) {
              n++
              if (!launched[kernel]) { print "no test launches " kernel; bad = 1 }
          }
          if (!n) { print "no kernel is listed"; bad = 1 }
          if (!bad) print n " kernels, each launched"
          exit bad}' "$@"
