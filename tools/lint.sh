#!/usr/bin/env bash
# Static analysis: gcc with -Wconversion over core, clang-tidy (.clang-tidy) over every C file that is compiled here, tests included, as the
# compile database of build/lint says, and cppcheck over the library. Minutes, so not a part of check.sh. A tool that is not here is
# skipped, with a line that says so.
#
# usage: tools/lint.sh [FILE...]      without files: all of them
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
[ $# -gt 0 ] || set -- $(git ls-files '*.c')

echo "lint: -Wconversion"
for file in "$@"; do
    case $file in core/*) ;; *) continue ;; esac
    "${CC:-cc}" -std=gnu11 -Iinclude -I. -D_GNU_SOURCE -DRVIT_BUILDING -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror \
        -fsyntax-only "$file" || bad=1
done

tidy=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [ -n "$tidy" ]; then
    build=build/lint
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
    [ ! -d "$build/backend_vulkan" ] || cmake --build "$build" --target raggedvit_shaders >/dev/null # headers that are included
    compiled=$(grep -o '"file": "[^"]*' "$build/compile_commands.json" | cut -c10- | sort -u)
    files=()
    left_out=()
    for file in "$@"; do
        case $file in
            # Compiled once for each instruction set, by files that include them.
            backend_cpu/kernels*.c) file=$PWD/$build/${file%.c}_portable.c ;;
            *) file=$PWD/$file ;;
        esac
        if grep -qxF "$file" <<<"$compiled"; then files+=("$file"); else left_out+=("${file#"$PWD"/}"); fi
    done
    echo "lint: clang-tidy, ${#files[@]} files, $("$tidy" --version | grep -o 'version .*' | head -1)"
    [ ${#left_out[@]} = 0 ] || echo "lint: clang-tidy leaves out what is not compiled here: ${left_out[*]}"
    found=$(printf '%s\n' "${files[@]}" | xargs -r -P "$(nproc)" -n 4 "$tidy" -p "$build" --quiet --header-filter='/backend_cpu/kernels' \
        --warnings-as-errors='*' 2>/dev/null) || { echo "$found"; bad=1; }
else
    echo "lint: clang-tidy skipped: it is not here (Debian: clang-tidy-14)"
fi

library=()
for file in "$@"; do
    case $file in backend_cpu/kernels*.c) ;; core/* | backend_*) library+=("$file") ;; esac
done
if [ ${#library[@]} = 0 ]; then
    echo "lint: cppcheck has nothing to look at"
elif command -v cppcheck >/dev/null; then
    echo "lint: cppcheck, ${#library[@]} files"
    # It takes the loop's end in log.c for a level, does not see that two loops over the same range run equally often (self_test.c), nor
    # that views are aligned, and misreads compound literals and calls through a conditional in the tool, so there it looks at nothing.
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j "$(nproc)" \
        --suppress=arrayIndexOutOfBoundsCond:core/base/log.c --suppress=invalidPointerCast --suppress=duplicateAssignExpression \
        --suppress=uninitvar:backend_vulkan/self_test.c --suppress=invalidFunctionArg:backend_cpu/oracle_prune.c -Iinclude -I. \
        "${library[@]}" || bad=1
else
    echo "lint: cppcheck skipped: it is not here"
fi
[ $bad = 0 ] && echo "lint: nothing found"
exit $bad
