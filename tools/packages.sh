# Sourced: install_packages NAME... installs those packages of Debian or Ubuntu that are missing, as root or by sudo.
install_packages() {
    local package missing="" as_root=""
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "These packages are missing, and sudo is not available to install them:$missing" >&2; exit 1; }
        as_root=sudo
    fi
    echo "Installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get -qq update
    $as_root apt-get -qq install -y --no-install-recommends $missing >/dev/null
}
