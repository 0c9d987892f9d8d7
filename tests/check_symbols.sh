#!/bin/sh
# usage: check_symbols.sh LIBRARY.so LIBRARY.a [PROGRAM]
# Checks that the shared library exports only rvit_* with the versions of cmake/raggedvit.map.in, that nothing links a GPU driver, and that
# the library never ends the process, prints, or allocates memory without the allocator.
set -eu
shared=$1 archive=$2 program=${3:-}
failed=0

versioned=$(nm -D --defined-only "$shared" | awk '$2 != "A" {print $NF}' | sort -u)
unversioned=$(printf '%s\n' "$versioned" | grep -v '@@RAGGEDVIT_0.4$' || true)
[ -z "$unversioned" ] || { echo "$shared exports without a version:"; echo "$unversioned"; failed=1; }
readelf -d "$shared" | grep -q 'SONAME.*\[libraggedvit\.so\.0\.4\]' || { echo "$shared: its soname is not libraggedvit.so.0.4"; failed=1; }
exported=$(printf '%s\n' "$versioned" | sed 's/@.*//')
n=$(printf '%s\n' "$exported" | grep -c '^rvit_' || true)
[ "$n" -ge 40 ] || { echo "$shared exports only $n functions"; failed=1; }
foreign=$(printf '%s\n' "$exported" | grep -v '^rvit_' || true)
[ -z "$foreign" ] || { echo "$shared exports symbols other than rvit_*:"; echo "$foreign"; failed=1; }

for binary in "$shared" ${program:+"$program"}; do
    needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || { echo "$binary: readelf finds no needed libraries"; failed=1; }
    drivers=$(printf '%s\n' "$needed" | grep -E '^lib(vulkan|cuda|cudart|cublas|cublasLt|nvrtc)\.' || true)
    [ -z "$drivers" ] || { echo "$binary links $drivers"; failed=1; }
done

undefined() { nm -A --undefined-only "$archive" 2>/dev/null | sed 's/^[^:]*:\([^:]*\):.* U \(.*\)$/\1 \2/'; }
undefined | grep -q ' memcpy$' || { echo "nm lists nothing of $archive"; failed=1; }
ends='abort|exit|_exit|_Exit|quick_exit|__assert_fail|raise|kill'
prints='printf|fprintf|vprintf|vfprintf|dprintf|puts|fputs|putchar|putc|fputc|perror|stdout|stderr'
prints="$prints|__printf_chk|__fprintf_chk|__vfprintf_chk|__dprintf_chk"
takes='malloc|calloc|realloc|free|aligned_alloc|posix_memalign|memalign|strdup|strndup|asprintf|mmap'
found=$(undefined | grep -E " ($ends|$prints)(@.*)?\$" || true)
[ -z "$found" ] || { echo "the library calls:"; echo "$found"; failed=1; }
found=$(undefined | grep -E " ($takes)(@.*)?\$" | grep -vE '^os_posix\.c\.o (aligned_alloc|free)(@.*)?$' || true)
[ -z "$found" ] || { echo "memory is allocated outside core/base/os_posix.c:"; echo "$found"; failed=1; }

[ "$failed" -eq 0 ] || exit 1
echo "$n functions exported"
