#!/bin/sh
# usage: check_headers.sh CC CXX INCLUDE_DIR
# Checks that every public header compiles without warnings as C99 and C++17, by itself and included twice; that every initialiser compiles;
# and that no other header declares names of experimental.h.
set -eu
cc=$1 cxx=$2 include=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"

compile() { # compile LABEL FILE
    "$cc" -std=c99 $warnings -I "$include" -c "$2.c" -o "$2.o" || { echo "$1 does not compile as C99"; exit 1; }
    if [ -n "$cxx" ]; then
        cp "$2.c" "$2.cpp"
        "$cxx" -std=c++17 $warnings -I "$include" -c "$2.cpp" -o "$2.o" || { echo "$1 does not compile as C++17"; exit 1; }
    fi
}

n=0
for header in "$include"/raggedvit/*.h; do
    name=raggedvit/$(basename "$header")
    printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$name" "$name" >"$work/header.c"
    compile "$name" "$work/header"
    n=$((n + 1))
done

{
    for header in raggedvit cuda vulkan; do echo "#include <raggedvit/$header.h>"; done
    echo 'int use(void);'
    echo 'int use(void)'
    echo '{'
    i=0
    # RVIT_COPY_ARGS_INIT is the initialiser of rvit_copy_args.
    for macro in $(sed -n 's/^#define \(RVIT_[A-Z0-9_]*_INIT\)\([ \t].*\)\{0,1\}$/\1/p' "$include"/raggedvit/*.h); do
        type=$(echo "${macro%_INIT}" | tr 'A-Z' 'a-z')
        echo "    $type value$i = $macro;"
        echo "    if (value$i.struct_size != sizeof(value$i)) return 1;"
        i=$((i + 1))
    done
    [ "$i" -ge 20 ] || { echo "only $i initialisers found" >&2; exit 1; }
    echo '    return 0;'
    echo '}'
} >"$work/initialisers.c"
compile "the use of the initialisers" "$work/initialisers"

{
    for header in raggedvit cuda vulkan; do echo "#include <raggedvit/$header.h>"; done
    i=0
    for name in $(sed -n 's/^#define \(RVIT_[A-Z0-9_]*\).*/\1/p' "$include/raggedvit/experimental.h"); do
        echo "extern int $name;" # an error where it is a macro
        i=$((i + 1))
    done
    [ "$i" -ge 10 ] || { echo "only $i names found in experimental.h" >&2; exit 1; }
} >"$work/experimental.c"
compile "code that uses the names of experimental.h for variables" "$work/experimental"

[ "$n" -ge 9 ] || { echo "only $n headers found in $include"; exit 1; }
if [ -z "$cxx" ]; then
    echo "$n headers compile as C99; C++17 was not tested, because there is no C++ compiler"
    exit 77
fi
echo "$n headers compile by themselves as C99 and C++17"
