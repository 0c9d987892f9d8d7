# Sourced by demo.sh and test.sh: installs what is missing (Debian 12 and 13, Ubuntu 24.04), configures and builds the preset `release`
# into build/release. Package names given as arguments are wanted on top of those for a build;
# $configure holds further options for cmake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want="gcc cmake ninja-build pkg-config libjansson-dev libjpeg-dev libpng-dev libvulkan-dev libvulkan-volk-dev
      glslang-tools mesa-vulkan-drivers $*"
if ! command -v apt-get >/dev/null; then
    echo "No apt-get here: what a build needs (docs/using.md, \"Build by hand\") must be installed"
    want=""
fi
missing=""
for package in $want; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "These packages are missing, and there is no sudo to install them:$missing" >&2; exit 1; }
        as_root=sudo
    fi
    echo "Installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get -qq update
    $as_root apt-get -qq install -y --no-install-recommends $missing >/dev/null
fi

preset=${RVIT_PRESET:-release}
build=build/$preset
cmake --preset "$preset" ${configure:-} >/dev/null
echo "Building in $build"
# All but Ninja's count of steps: what compilers complain of.
cmake --build --preset "$preset" | sed '/^\[[0-9]*\/[0-9]*\] /d'
