#!/usr/bin/env bash
# Checks of the tree that need no build: formatting, and the rules of CONTRIBUTING.md that a pattern can see. Installs nothing; prints what
# it skips.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
fail() { echo "check: $1"; [ -z "${2:-}" ] || printf '%s\n' "$2" | head -20; bad=1; }

sources=$(git ls-files '*.c' '*.h')
format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -n "$format" ] && "$format" --version | grep -q 'version 14\.'; then
    out=$("$format" --dry-run -Werror $sources 2>&1 | grep -E 'error:' || true)
    [ -z "$out" ] || fail "not formatted (clang-format 14)" "$out"
else
    echo "check: formatting skipped: clang-format 14 is not here (Debian 12: clang-format-14)"
fi

library='core backend_cpu backend_cuda backend_vulkan'
out=$(git grep -nE '\b(malloc|calloc|realloc|aligned_alloc|free)\(' -- $library ':!core/base/alloc.c' || true)
[ -z "$out" ] || fail "allocation outside core/base/alloc.c" "$out"
out=$(git grep -nE '\b(abort|exit|assert|printf|fprintf|puts)\(' -- $library || true)
[ -z "$out" ] || fail "the library aborts, exits or prints" "$out"
out=$(python3 -B tools/rooms.py) || fail "cycles of files, or includes that tools/rooms.py does not allow" "$out"
entries=$(sed -nE 's/^RVIT_API (RVIT_NODISCARD rvit_status|void) (rvit_[a-z_]+(_destroy)?)\(.*/\1 \2/p' include/raggedvit/*.h |
    awk '$1 != "void" || $2 ~ /_destroy$/ {print $NF}')
out=$(for name in $entries; do
    ! grep -q "^RVIT_OP(.*, ${name#rvit_})" core/contract/ops.def || continue # made by core/device/op_calls.c
    git grep -hA4 -E "^(rvit_status|void) $name\(" -- $library ':!*_absent.c' | grep -q 'RVIT_ENTRY;' || echo "$name"
done)
[ -z "$out" ] || fail "public functions that do not begin with RVIT_ENTRY (core/base/entry.h)" "$out"
code=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' '*.comp' '*.glsl')
out=$(awk 'length > 140 {print FILENAME ":" FNR}' $code $(git ls-files '*.sh' '*.cmake'))
[ -z "$out" ] || fail "lines over 140 columns" "$out"
out=$(wc -l $code | awk '$2 != "total" && ($1 > 800 || ($2 ~ /^shaders/ && $1 > 400))')
[ -z "$out" ] || fail "files over 800 lines (shaders: 400)" "$out"
out=$(git grep -nE '[[:space:]]+$' -- '*.c' '*.h' '*.comp' '*.glsl' '*.sh' '*.md' '*.txt' ':!LICENSE' || true)
[ -z "$out" ] || fail "trailing white space" "$out"
if command -v doxygen >/dev/null; then
    folder=$(mktemp -d)
    out=$(tools/docs.sh "$folder" 2>&1) || fail "Doxygen warns" "$out"
    rm -r "$folder"
else
    echo "check: the reference skipped: doxygen is not here (Debian: doxygen)"
fi
[ $bad = 0 ] && echo "check: the tree is clean"
exit $bad
