#!/bin/sh
# usage: vulkan_shaders.sh VARIANTS PATTERN FILE...
# Fails if no test created a pipeline for a shader in VARIANTS (shaders/variants.txt) with a name that matches PATTERN (an awk regular
# expression). Each FILE was written by a test program (RVIT_TEST_PIPELINES). Skipped if one of the tests has not run.
set -eu
variants=$1 pattern=$2
shift 2
for file in "$@"; do
    [ -f "$file" ] || { echo "skipped: no $file: its test has not run"; exit 77; }
done
awk -v pattern="$pattern" -v variants="$variants" '
    FILENAME != variants {made[$1] = 1}
    FILENAME == variants && /^[a-z]/ && $1 ~ pattern {
        n++
        if (!made[$1]) {print "no test creates a pipeline for " $1; bad = 1}
    }
    END {
        if (!n) {print "no shader matches"; bad = 1}
        if (!bad) print "pipelines were created for all " n " shaders"
        exit bad
    }' "$@" "$variants"
