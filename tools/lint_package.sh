#!/usr/bin/env bash
# Builds the Debian packages (preset `package`) and runs lintian, which may report no errors or warnings other than those suppressed below.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v lintian >/dev/null || { echo "lint_package: skipped: lintian is not installed"; exit 0; }
cmake --workflow --preset package >/dev/null
# Suppressed: the builder sets the contact (CPACK_PACKAGE_CONTACT), the packages close no Debian bug, and CPack calls ldconfig in addition
# to the trigger.
lintian --allow-root --tag-display-limit 0 --fail-on error,warning --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs,maintscript-calls-ldconfig build/package/*.deb
echo "lint_package: no findings"
