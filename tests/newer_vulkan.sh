#!/bin/sh
# usage: newer_vulkan.sh SOURCE_DIR DIR COMMAND...
# Runs a test on the Vulkan stack that tools/newer_vulkan.sh unpacked into DIR; skips if it is missing. RVIT_NEED_NEWER_VULKAN=1 makes
# this a failure.
set -eu
source=$1 dir=$2
shift 2
if [ ! -d "$dir/usr/share/vulkan" ]; then
    echo "skipped: no newer Vulkan stack; 'tools/newer_vulkan.sh fetch $dir' unpacks one (it needs Debian's mirror)"
    [ "${RVIT_NEED_NEWER_VULKAN:-}" = 1 ] && exit 1
    exit 77
fi
exec "$source/tools/newer_vulkan.sh" run "$dir" "$@"
