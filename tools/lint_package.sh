#!/usr/bin/env bash
# Makes the Debian packages (the preset `package`) and looks at them with lintian: no error and no warning but those that are named below.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v lintian >/dev/null || { echo "lint_package: skipped: lintian is not here"; exit 0; }
cmake --workflow --preset package >/dev/null
# Whoever builds the packages names himself (CPACK_PACKAGE_CONTACT); they close no bug of Debian's; CPack calls ldconfig beside the trigger.
lintian --allow-root --tag-display-limit 0 --fail-on error,warning --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs,maintscript-calls-ldconfig build/package/*.deb
echo "lint_package: nothing found"
