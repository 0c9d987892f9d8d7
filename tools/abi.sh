#!/usr/bin/env bash
# Compares the ABI of the shared library with that of the last tag (without tags: of the commit before the last version bump) by abidiff.
# New functions, fields at the end of a struct, and changes to what experimental.h declares are compatible. Anything else fails unless the
# version allows it: a new major version, or before 1.0 a new minor one. Skips, with a reason, without history or abidiff.
#
# usage: tools/abi.sh [--write]   --write: makes the baseline from this tree
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "abi: skipped: $1"; exit 0; }
command -v abidiff >/dev/null || skip "abidiff is not installed (Debian: abigail-tools)"
tag=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$tag" ]; then
    change=$(git log -1 --format=%H -G'^project\(raggedvit VERSION' -- CMakeLists.txt)
    tag=$(git rev-parse --short --verify --quiet "$change~1") || skip "no older version to compare with"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old"
git archive "$tag" | tar -x -C "$work/old"
# The functions do not depend on which backends are built.
build() {
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DRVIT_VULKAN=OFF -DRVIT_CUDA=OFF -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF \
        -DRVIT_BENCH=OFF -DRVIT_EXAMPLES=OFF >/dev/null
    cmake --build "$2" --target raggedvit >/dev/null
}
build "$work/old" "$work/old-build"
build . "$work/new-build"
printf '[suppress_type]\ntype_kind = struct\nhas_data_member_inserted_at = end\nhas_size_change = yes\n' >"$work/allowed"
grep -ohsE '\brvit_[a-z_]+\(' include/raggedvit/experimental.h | tr -d '(' | sort -u |
    while read -r name; do printf '[suppress_function]\nname = %s\n' "$name"; done >>"$work/allowed"
status=0
abidiff --no-added-syms --suppressions "$work/allowed" $baseline "$work/new.abi" || status=$?
if [ $status = 0 ]; then
    echo "abi: compatible with $baseline ($(soname $baseline))"
elif [ $((status & 3)) != 0 ]; then
    echo "abi: abidiff failed ($status)"
    exit 1
elif [ "${old%%.*}" != "${new%%.*}" ] || { [ "${new%%.*}" = 0 ] && [ "${old%.*}" != "${new%.*}" ]; }; then
    echo "abi: differs from $tag, which version $new may do after $old"
else
    echo "abi: programs built with $(soname $baseline) would break: see above"
    exit 1
fi
