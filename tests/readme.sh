#!/usr/bin/env bash
# usage: readme.sh PYTHON|C SOURCE LIBRARY
# Runs README.md's program in that language with README.md's commands. LIBRARY is a libraggedvit.so; CC and CFLAGS come from the
# environment. Also checks the size of README.md. Exits 77 with the reason if it cannot run.
set -euo pipefail
language=$1 source=$(realpath "$2") library=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "readme: $*" >&2; exit 1; }
skip() { echo "skipped: $1"; exit 77; }

# Prints the only code block with this language.
block() {
    [ "$(grep -cx "\`\`\`$1" "$source/README.md")" = 1 ] || fail "README.md must have exactly one block of $1"
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$source/README.md" | sed '1d;$d'
}
# at_most LINES FILE WHAT
at_most() { [ "$(wc -l <"$2")" -le "$1" ] || fail "$3 has $(wc -l <"$2") lines; at most $1 are allowed"; }

block python >"$work/app.py"
block c >"$work/app.c"
block sh >"$work/commands"
at_most 150 "$source/README.md" README.md
at_most 6 "$work/app.py" "its Python program"
at_most 21 "$work/app.c" "its C program"

# The commands expect the folders of the source tree and build/release in the current folder, python3 and cc in PATH.
mkdir -p "$work/bin" "$work/build/release"
ln -s "$source"/{include,python,examples} "$work/"
for name in libraggedvit.so libraggedvit.so.0.4; do ln -s "$library" "$work/build/release/$name"; done
case $language in
PYTHON)
    ! grep -qaE '__(asan|tsan)_init' "$library" || skip "Python cannot load a library with a sanitizer in it"
    for python in ${RVIT_PYTHON:-python3 /usr/bin/python3} ''; do
        [ -n "$python" ] || skip "no Python with numpy here (Debian: python3-numpy)"
        ! "$python" -c 'import sys, numpy; assert sys.version_info >= (3, 10)' 2>/dev/null || break
    done
    printf '#!/bin/sh\nexec %s -B "$@"\n' "$(command -v "$python")" >"$work/bin/python3"
    unwanted='^cc '
    ;;
C)
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$(command -v "${CC:-cc}")" "${CFLAGS:-} -Wall -Wextra -Wpedantic -Werror" >"$work/bin/cc"
    unwanted='^python3 '
    ;;
*) fail "unknown: $language" ;;
esac
chmod +x "$work"/bin/*
grep -vE "$unwanted" "$work/commands" >"$work/run"
[ "$(wc -l <"$work/run")" -lt "$(wc -l <"$work/commands")" ] || fail "README.md's commands lack one of: python3, cc"
cd "$work"
# The program frees nothing before it ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
PATH=$work/bin:$PATH bash -euo pipefail run | tee output
# keep 0.5 leaves 98 of 197 tokens, or 99 if the CLS token is not among the best.
grep -qE '^9[89] of 197 tokens kept$' output || fail "the program does not report that it kept half of the tokens"
