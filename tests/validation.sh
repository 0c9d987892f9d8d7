#!/bin/sh
# usage: validation.sh PROBE PROGRAM [ARGUMENT...]
# Runs a test program under Vulkan's validation layer, with synchronisation validation, and fails on any message of the layer. The run
# counts only if the layer reports PROBE, which breaks the rules on purpose, and if the loader's log shows the layer in PROGRAM.
# RVIT_RUN in the environment is a shell command that runs both programs, for example tools/newer_vulkan.sh.
set -eu
probe=$1
shift
run=${RVIT_RUN:-}
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
export VK_KHRONOS_VALIDATION_VALIDATE_SYNC=1
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
eval "$run \"\$probe\"" >"$work/probe" 2>&1 || status=$?
if [ "$status" -eq 77 ]; then
    cat "$work/probe"
    exit 77
fi
if [ "$status" -ne 0 ] || ! grep -q 'VUID-' "$work/probe" || ! grep -q 'SYNC-HAZARD' "$work/probe"; then
    echo "the validation layer does not report the errors of the probe (exit $status):"
    # Changes the lines, so that they do not look like messages about the program.
    sed 's/-/ - /g; s/Validation/validation/g' "$work/probe"
    exit 1
fi

export VK_LOADER_DEBUG=layer
eval "$run \"\$@\"" >"$work/out" 2>"$work/err" || status=$?
if [ "$status" -eq 77 ]; then
    cat "$work/out"
    exit 77
fi
grep -v -E '^\[ +(RUN|OK) +\]|^\[=+\]' "$work/out" || true
grep -v -E '^(LAYER|INFO|DEBUG|DRIVER|.*LAYER *[|:])' "$work/err" || true
if ! grep -q -E '(Insert|Load).*(VK_LAYER_KHRONOS_validation|VkLayer_khronos_validation)' "$work/err"; then
    echo "the loader did not put the validation layer into the program"
    exit 1
fi
if grep -q -E 'Validation (Error|Warning)|VUID-|SYNC-HAZARD|UNASSIGNED-' "$work/out" "$work/err"; then
    echo "the validation layer reports:"
    grep -h -E -A 3 'Validation (Error|Warning)|VUID-|SYNC-HAZARD|UNASSIGNED-' "$work/out" "$work/err" | head -60
    exit 1
fi
[ "$status" -eq 0 ] && echo "no messages of the validation layer"
exit "$status"
