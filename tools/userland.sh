# Sourced, by root: bare Debian systems in folders. A script that sources this runs in a mount namespace of its own (unshare), so that all
# mounts end with it. RVIT_MIRROR sets the Debian mirror if apt does not know one.

# make_userland SUITE FOLDER [PACKAGES]: sets up a system with those packages (a,b,...), which reaches the mirrors that this machine reaches
make_userland() {
    local mirror=${RVIT_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/\?$' | head -1)}
    local script=/usr/share/debootstrap/scripts/$1
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # for a suite newer than this debootstrap
    debootstrap --variant=minbase --include="ca-certificates${3:+,$3}" "$1" "$2" "$mirror" "$script" || return 1
    cp /etc/resolv.conf /etc/hosts "$2/etc/"
    grep -hs '^Acquire' /etc/apt/apt.conf.d/* /etc/apt/apt.conf >"$2/etc/apt/apt.conf.d/90userland" || true
    # A proxy of this machine may have a certificate of its own.
    [ ! -e "${SSL_CERT_FILE:-}" ] || cp "$SSL_CERT_FILE" "$2/etc/ssl/certs/ca-certificates.crt"
    mountpoint -q "$2/proc" || mount -t proc proc "$2/proc"
}

# in_userland FOLDER COMMAND...
in_userland() {
    local folder=$1 certificates=/etc/ssl/certs/ca-certificates.crt
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PIP_ROOT_USER_ACTION=ignore \
        PIP_CERT=$certificates SSL_CERT_FILE=$certificates ${https_proxy:+https_proxy=$https_proxy} chroot "$folder" "$@"
}
