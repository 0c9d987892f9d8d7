#!/usr/bin/env bash
# Static analysis: gcc -Wconversion on core, clang-tidy (.clang-tidy) on every C file in the compile database of build/lint, tests included,
# and cppcheck on the library. Takes minutes, so check.sh does not run it. Prints which tools it skips because they are not installed.
#
# usage: tools/lint.sh [FILE...]      default: all files
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
    [ ! -d "$build/backend_vulkan" ] || cmake --build "$build" --target raggedvit_shaders >/dev/null # included headers
    compiled=$(grep -o '"file": "[^"]*' "$build/compile_commands.json" | cut -c10- | sort -u)
    files=()
    skipped=()
    for file in "$@"; do
        case $file in
            # Generated files include these, to compile them once per instruction set.
            backend_cpu/kernels*.c) file=$PWD/$build/${file%.c}_portable.c ;;
            *) file=$PWD/$file ;;
        esac
        if grep -qxF "$file" <<<"$compiled"; then files+=("$file"); else skipped+=("${file#"$PWD"/}"); fi
    done
    echo "lint: clang-tidy, ${#files[@]} files, $("$tidy" --version | grep -o 'version .*' | head -1)"
    [ ${#skipped[@]} = 0 ] || echo "lint: clang-tidy skips files that are not compiled here: ${skipped[*]}"
    found=$(printf '%s\n' "${files[@]}" | xargs -r -P "$(nproc)" -n 4 "$tidy" -p "$build" --quiet --header-filter='/backend_cpu/kernels' \
        --warnings-as-errors='*' 2>/dev/null) || { echo "$found"; bad=1; }
else
    echo "lint: clang-tidy skipped: not installed (Debian: clang-tidy-14)"
fi

library=()
for file in "$@"; do
    case $file in backend_cpu/kernels*.c) ;; core/* | backend_*) library+=("$file") ;; esac
done
if [ ${#library[@]} = 0 ]; then
    echo "lint: no files for cppcheck"
elif command -v cppcheck >/dev/null; then
    echo "lint: cppcheck, ${#library[@]} files"
    # Suppressed false positives: in log.c it treats the end of a loop as a level, in self_test.c it misses that two loops have the same
    # range, and it does not know that views are aligned. It also misreads compound literals and calls through a conditional.
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j "$(nproc)" \
        --suppress=arrayIndexOutOfBoundsCond:core/base/log.c --suppress=invalidPointerCast --suppress=duplicateAssignExpression \
        --suppress=uninitvar:backend_vulkan/self_test.c --suppress=invalidFunctionArg:backend_cpu/oracle_prune.c -Iinclude -I. \
        "${library[@]}" || bad=1
else
    echo "lint: cppcheck skipped: not installed"
fi
[ $bad = 0 ] && echo "lint: no findings"
exit $bad
