#!/usr/bin/env bash
# Compares the shared library with that of the last tag, or without tags of the last commit of the version before, by abidiff: what a
# program built with the old headers meets when it runs with this tree's library. New functions and fields that join a struct at its end are
# fine, and so is any change of what experimental.h declares; all else fails, unless the version says that it may: another major version, or
# before 1.0 another minor one. Skipped, with a line that says why, where there is no history or no abidiff.
#
# usage: tools/abi.sh [TAG]
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "abi: skipped: $1"; exit 0; }
command -v abidiff >/dev/null || skip "abidiff is not here (Debian: abigail-tools)"
tag=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
if [ -z "$tag" ]; then
    change=$(git log -1 --format=%H -G'^project\(raggedvit VERSION' -- CMakeLists.txt)
    tag=$(git rev-parse --short --verify --quiet "$change~1") || skip "there is nothing older to compare with"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old"
git archive "$tag" | tar -x -C "$work/old"
# The functions are the same whichever backends are built.
build() {
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DRVIT_VULKAN=OFF -DRVIT_CUDA=OFF -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF \
        -DRVIT_BENCH=OFF -DRVIT_EXAMPLES=OFF >/dev/null
    cmake --build "$2" --target raggedvit >/dev/null
}
build "$work/old" "$work/old-build"
build . "$work/new-build"
printf '[suppress_type]\ntype_kind = struct\nhas_data_member_inserted_at = end\nhas_size_change = yes\n' >"$work/allowed"
{ grep -ohsE '\brvit_[a-z_]+\(' {"$work/old",.}/include/raggedvit/experimental.h || true; } | tr -d '(' | sort -u |
    while read -r name; do printf '[suppress_function]\nname = %s\n' "$name"; done >>"$work/allowed"
version() { sed -n 's/^project(raggedvit VERSION \([0-9.]*\).*/\1/p' "$1/CMakeLists.txt"; }
old=$(version "$work/old")
new=$(version .)
status=0
abidiff --no-added-syms --suppressions "$work/allowed" --headers-dir1 "$work/old/include" --headers-dir2 include \
    "$work/old-build/libraggedvit.so" "$work/new-build/libraggedvit.so" || status=$?
if [ $status = 0 ]; then
    echo "abi: compatible with $tag"
elif [ $((status & 3)) != 0 ]; then
    echo "abi: abidiff failed ($status)"
    exit 1
elif [ "${old%%.*}" != "${new%%.*}" ] || { [ "${new%%.*}" = 0 ] && [ "${old%.*}" != "${new%.*}" ]; }; then
    echo "abi: another than that of $tag, as version $new after $old may have"
else
    echo "abi: programs built with $tag would break: see above"
    exit 1
fi
