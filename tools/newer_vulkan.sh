#!/usr/bin/env bash
# Unpacks a newer Vulkan software stack into a folder, to test the matrix tier where Mesa has no cooperative matrices: the loader and
# validation layers of Debian 13, Mesa from its backports (lavapipe with 8x8x8 matrices) and glslang from Debian testing (with bfloat16).
# Nothing is installed. Needs Debian with apt, but not root.
#   newer_vulkan.sh fetch DIR                    fill DIR, about 1 GB
#   newer_vulkan.sh run DIR PROGRAM [ARGS...]    run a program of this machine, or one in DIR by its bare name (glslang, vulkaninfo)
set -euo pipefail

usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
action=$1 dir=$2
shift 2
libraries=usr/lib/x86_64-linux-gnu

fetch() {
    command -v apt-get >/dev/null || { echo "newer_vulkan.sh: apt-get is not installed" >&2; exit 1; }
    [ "$(dpkg --print-architecture)" = amd64 ] || { echo "newer_vulkan.sh: supports only amd64" >&2; exit 1; }
    rm -rf "$dir"
    mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial"
    dir=$(cd "$dir" && pwd)
    trap '[ $? = 0 ] || rm -rf "$dir"' EXIT # no partial result
    touch "$dir/apt/status"
    # Use the mirror of the system.
    local mirror
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1 | tr -d ' ') || true
    [ -n "$mirror" ] || { echo "newer_vulkan.sh: the apt sources have no Debian mirror" >&2; exit 1; }
    cat > "$dir/apt/sources.list" <<EOF
deb $mirror trixie main
deb $mirror trixie-backports main
deb $mirror testing main
EOF
    printf 'Package: *\nPin: release a=testing\nPin-Priority: 100\n' > "$dir/apt/preferences"
    cat > "$dir/apt/conf" <<EOF
Dir::Etc::SourceList "$dir/apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::Etc::Preferences "$dir/apt/preferences";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State::Lists "$dir/apt/lists";
Dir::State::Status "$dir/apt/status";
Dir::Cache::Archives "$dir/apt/archives";
Dir::Cache::PkgCache "";
Dir::Cache::SrcPkgCache "";
Debug::NoLocking "1";
APT::Sandbox::User "";
APT::Install-Recommends "0";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
EOF
    export APT_CONFIG=$dir/apt/conf
    apt-get -qq update
    # The status file is empty, so apt also downloads all dependencies.
    apt-get -qq -y --download-only install libvulkan1 vulkan-tools vulkan-validationlayers \
        mesa-vulkan-drivers/trixie-backports glslang-tools/testing spirv-tools/testing
    for package in "$dir"/apt/archives/*.deb; do dpkg-deb -x "$package" "$dir"; done
    rm -rf "$dir/apt"
    # Manifests have bare or absolute library names; make them point into DIR.
    sed -i -E "s#(\"library_path\" *: *\")[^\"]*/?(lib[^\"/]*)\"#\1$dir/$libraries/\2\"#" \
        "$dir"/usr/share/vulkan/icd.d/*.json "$dir"/usr/share/vulkan/explicit_layer.d/*.json
    run vulkaninfo --summary 2>/dev/null | grep -E 'deviceName|driverInfo'
}

run() {
    local program=$1 root
    root=$(cd "$dir" && pwd)
    shift
    [ "$program" = "${program#*/}" ] && program=$root/usr/bin/$program
    export VK_DRIVER_FILES=$root/usr/share/vulkan/icd.d/lvp_icd.json VK_LAYER_PATH=$root/usr/share/vulkan/explicit_layer.d
    [ -f "$VK_DRIVER_FILES" ] || VK_DRIVER_FILES=$(ls "$root"/usr/share/vulkan/icd.d/lvp_icd*.json | head -1)
    # The path also serves libraries that are opened at run time.
    LD_LIBRARY_PATH=$root/$libraries "$root/$libraries/ld-linux-x86-64.so.2" "$program" "$@"
}

case $action in
    fetch) fetch ;;
    run) [ $# -ge 1 ] || usage; run "$@" ;;
    *) usage ;;
esac
