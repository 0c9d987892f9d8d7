#!/usr/bin/env bash
# Installs what is missing, builds, and classifies the bundled photo and sheet of test tiles, dense and with half of the patches dropped, on
# the default backend and on Vulkan as a cross-check.
targets="raggedvit raggedvit_cli"
. "$(dirname "$0")/setup.sh"
raggedvit=$build/tools/raggedvit
data=examples/data
model=$data/deit_tiny_cifar10.safetensors
overlay=$build/chelsea_pruned.png
vulkan_tiles=${RVIT_DEMO_VULKAN_TILES:-400}

field() { awk -v name="$1" '$1 == name {$1 = ""; print substr($0, 2); exit}'; }

# Prints a row of the table. Arguments: backend, tiles, label, options of the policy.
row() {
    local backend=$1 tiles=$2 label=$3
    shift 3
    local cat sheet
    cat=$("$raggedvit" classify "$model" $data/chelsea.png --backend "$backend" --top 1 "$@")
    sheet=$("$raggedvit" classify "$model" $data/cifar10_test_1000.png --tiles 32 --expect $data/cifar10_test_1000.txt \
        --limit "$tiles" --quiet --backend "$backend" "$@")
    printf '%-8s %-12s %-12s %-6s %-22s %-8s %s\n' "$(field device <<<"$sheet" | cut -d' ' -f1)" "$label" \
        "$(awk '$2 == "%" {print $3, $1, $2; exit}' <<<"$cat")" "$tiles" "$(field top-1 <<<"$sheet")" \
        "$(field tokens <<<"$sheet" | awk '{print $2 == "all" ? $3 : $2}')" "$(field speed <<<"$sheet" | cut -d' ' -f1)"
}

echo
"$raggedvit" devices
default=$("$raggedvit" classify "$model" $data/chelsea.png --top 1 --prune l2 --keep 0.5 --overlay "$overlay" |
    field device | cut -d' ' -f1)
other=vulkan
[ "$default" != vulkan ] || other=cpu

echo
printf '%-8s %-12s %-12s %-6s %-22s %-8s %s\n' backend pruning chelsea.png tiles top-1 tokens images/s
row "$default" 1000 none
row "$default" 1000 "l2 keep 0.5" --prune l2 --keep 0.5
row "$other" "$vulkan_tiles" none
row "$other" "$vulkan_tiles" "l2 keep 0.5" --prune l2 --keep 0.5

echo
echo "$other against $default, the same images, half of the patches dropped:"
"$raggedvit" verify "$model" --backend "$other" --against "$default" --prune l2 --keep 0.5 --images $data/chelsea.png
echo
echo "The photo with its dropped patches dimmed: $overlay"
