#!/bin/sh
# usage: vulkan_shaders.sh VARIANTS PATTERN FILE...
# Fails if no test made a pipeline of a shader of VARIANTS (shaders/variants.txt) whose name matches PATTERN, a regular
# expression of awk. Each FILE is what a test program wrote (RVIT_TEST_PIPELINES). Skipped where a test has not run.
set -eu
variants=$1 pattern=$2
shift 2
for file in "$@"; do
    [ -f "$file" ] || { echo "skipped: there is no $file: its test has not run"; exit 77; }
done
awk -v pattern="$pattern" -v variants="$variants" '
    FILENAME != variants {made[$1] = 1}
    FILENAME == variants && /^[a-z]/ && $1 ~ pattern {
        n++
        if (!made[$1]) {print "no test makes a pipeline of " $1; bad = 1}
    }
    END {
        if (!n) {print "no shader is listed"; bad = 1}
        if (!bad) print n " shaders, a pipeline of each"
        exit bad
    }' "$@" "$variants"
