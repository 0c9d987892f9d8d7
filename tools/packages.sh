# Sourced.
# install_packages NAME...: installs those packages of Debian or Ubuntu that are missing, as root or by sudo.
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

# debian_sources FOLDER: prepares a configuration of apt for debian_source, because that of the machine may lack the sources.
debian_sources() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg by=""
    [ ! -e $keys ] || by="[signed-by=$keys]"
    mkdir -p "$1"/{lists/partial,archives/partial}
    apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Identifier: Packages' | sort -u |
        awk -F'|' -v by="$by" '$1 ~ /Debian|Ubuntu/ {print "deb-src", by, $2, $3, $4}' >"$1/sources.list"
    [ -s "$1/sources.list" ] || { echo "apt knows no archive of Debian: run apt-get update" >&2; exit 1; }
    cat >"$1/apt.conf" <<END
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$1/lists";
Dir::Cache "$1";
APT::Sandbox::User "root";
END
    APT_CONFIG=$1/apt.conf apt-get -qq update
}

# debian_source FOLDER PACKAGE TO: unpacks a package's source below TO and prints where. FOLDER: of debian_sources.
debian_source() {
    local wanted
    rm -rf "$3" && mkdir -p "$3"
    for wanted in "$2" "$2/$(. /etc/os-release && echo "$VERSION_CODENAME")"; do # a mirror may lack the newest one
        if (cd "$3" && APT_CONFIG=$1/apt.conf apt-get -qq source "$wanted") >"$3.log" 2>&1; then
            find "$3" -mindepth 1 -maxdepth 1 -type d
            return
        fi
    done
    tail -5 "$3.log" >&2
    echo "there is no source of $2" >&2
    return 1
}
