#!/usr/bin/env bash
# Static analysis of the library: gcc with -Wconversion over core, clang-tidy (.clang-tidy) and cppcheck over core, the CPU backend and the
# tool. Minutes, so not a part of check.sh. A tool that is not here is skipped, with a line that says so.
#
# usage: tools/lint.sh [FILE...]      without files: all of them
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
[ $# -gt 0 ] || set -- $(git ls-files 'core/*.c' 'backend_cpu/*.c' 'tools/cli/*.c')
flags=(-std=gnu11 -Iinclude -I. -Itools/cli -D_GNU_SOURCE -DRVIT_BUILDING)
command -v pkg-config >/dev/null && read -ra jansson <<<"$(pkg-config --cflags jansson 2>/dev/null)" && flags+=("${jansson[@]}")

# kernels*.c are compiled once for each instruction set, included by generated files that say which.
files=()
for file in "$@"; do
    case $file in backend_cpu/kernels*.c) ;; *) files+=("$file") ;; esac
done

library=()
for file in "${files[@]}"; do
    case $file in tools/*) ;; *) library+=("$file") ;; esac
done

echo "lint: -Wconversion"
for file in "${files[@]}"; do
    case $file in core/*) ;; *) continue ;; esac
    "${CC:-cc}" "${flags[@]}" -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror -fsyntax-only "$file" || bad=1
done

tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [ -n "$tidy" ]; then
    echo "lint: $("$tidy" --version | grep -o 'version .*' | head -1) of clang-tidy"
    found=$(printf '%s\n' "${files[@]}" | flags="${flags[*]}" xargs -P "$(nproc)" -n 4 \
        sh -c '"$0" --quiet --warnings-as-errors="*" "$@" -- $flags 2>/dev/null' "$tidy") || { echo "$found"; bad=1; }
else
    echo "lint: clang-tidy skipped: it is not here (Debian: clang-tidy-14)"
fi

if [ ${#library[@]} = 0 ]; then
    echo "lint: cppcheck has nothing to look at"
elif command -v cppcheck >/dev/null; then
    echo "lint: cppcheck"
    # It takes the loop's end in log.c for a level, does not know that views are aligned, and misreads compound literals and calls through
    # a conditional in the tool, so there it looks at nothing.
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j "$(nproc)" \
        --suppress=arrayIndexOutOfBoundsCond:core/log.c --suppress=invalidPointerCast \
        --suppress=invalidFunctionArg:backend_cpu/oracle_prune.c -Iinclude -I. "${library[@]}" || bad=1
else
    echo "lint: cppcheck skipped: it is not here"
fi
[ $bad = 0 ] && echo "lint: nothing found"
exit $bad
