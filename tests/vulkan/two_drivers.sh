#!/bin/sh
# usage: two_drivers.sh TEST_VULKAN RAGGEDVIT FOLDER
# Runs with the software driver listed twice, and with it as a portability driver, which the loader hides by default.
set -eu
test=$1 tool=$2 folder=$3/two_drivers
mkdir -p "$folder"
manifest=$(ls /usr/share/vulkan/icd.d/lvp*.json 2>/dev/null | head -n 1)
[ -n "$manifest" ] || { echo "no manifest of the software driver"; exit 77; }
cp "$manifest" "$folder/first.json"
cp "$manifest" "$folder/second.json"
VK_DRIVER_FILES=$folder/first.json:$folder/second.json VK_ICD_FILENAMES=$folder/first.json:$folder/second.json \
    "$test" --backend vulkan --choice best_of_two | tee "$folder/said"
grep -q 'OK.*best_of_two' "$folder/said"
sed 's/"api_version"/"is_portability_driver": true, "api_version"/' "$manifest" > "$folder/portable.json"
listed=$(VK_DRIVER_FILES=$folder/portable.json VK_ICD_FILENAMES=$folder/portable.json "$tool" devices)
case $listed in
*llvmpipe*) ;;
*) echo "a portability driver is not listed:"; echo "$listed"; exit 1 ;;
esac
