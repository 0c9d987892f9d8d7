#!/usr/bin/env python3
"""Writes an SPDX document of release files: sbom.py FILE... > sbom.spdx.json

It lists what is in them that others wrote, and the shared libraries that they need, which come from the system that installs them. volk is
compiled into each library with the Vulkan backend, which this finds by the function that volk looks up. python/build_wheel.sh links wheels
with Zig's run-time library; programs and libraries for Windows begin with code of MinGW-w64. tools/windows.sh puts into the zip the licence of
each library that it links.
"""

import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from typing import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = re.compile(rb"^(\x7fELF|MZ|\xcf\xfa\xed\xfe)")
LICENCES = {"raggedvit": "Apache-2.0", "volk": "MIT", "compiler-rt of Zig": "MIT", "mingw-w64": "ZPL-2.1"}


def members(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of an archive."""
    if name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for one in archive.namelist():
                yield one, archive.read(one)
        return
    if name.endswith(".deb"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            data = subprocess.run(["dpkg-deb", "--fsys-tarfile", file.name], check=True, stdout=subprocess.PIPE).stdout
    elif not re.search(r"\.tar\.[gx]z$", name):
        return
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for one in archive:
            if one.isfile():
                yield one.name, archive.extractfile(one).read()  # type: ignore[union-attr]


def needed(data: bytes) -> list[str]:
    """The shared libraries that a binary of Linux or Windows needs."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        out = subprocess.run(
            ["objdump", "-p", file.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ).stdout
    return re.findall(r"^\s*(?:NEEDED|DLL Name:)\s+(\S+)", out, re.M)


def main() -> None:
    version = re.search(r"project\(raggedvit VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]  # type: ignore[index]
    packages, relations, external = [], [], set()
    for path in sorted(map(pathlib.Path, sys.argv[1:])):
        data = path.read_bytes()
        own = f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', path.name)}"
        packages.append(
            {
                "SPDXID": own,
                "name": "raggedvit",
                "packageFileName": path.name,
                "versionInfo": version,
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "licenseConcluded": LICENCES["raggedvit"],
                "licenseDeclared": LICENCES["raggedvit"],
                "copyrightText": "the raggedvit authors",
                "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
            }
        )
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", own))
        found = set()
        for name, content in members(path.name, data):
            if re.search("/licences/[^/]", name):
                found.add(("STATIC_LINK", pathlib.PurePath(name).stem))
            if BINARY.match(content):
                if path.suffix == ".whl":
                    found.add(("STATIC_LINK", "compiler-rt of Zig"))
                    if content.startswith(b"MZ"):
                        found.add(("STATIC_LINK", "mingw-w64"))
                found |= {("DYNAMIC_LINK", name) for name in needed(content) if "raggedvit" not in name}
                if b"vkGetInstanceProcAddr" in content:
                    found.add(("STATIC_LINK", "volk"))
        for relation, name in sorted(found):
            external.add(name)
            relations.append((own, relation, f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"))
    for name in sorted(external):
        packages.append(
            {
                "SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}",
                "name": name,
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "licenseConcluded": LICENCES.get(name, "NOASSERTION"),
                "licenseDeclared": LICENCES.get(name, "NOASSERTION"),
                "copyrightText": "2018-2023 Arseny Kapoulkine" if name == "volk" else "NOASSERTION",
            }
        )
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    now = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"raggedvit-{version}",
        "documentNamespace": f"urn:sha256:{digest}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", now), "creators": ["Tool: raggedvit-sbom"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": a, "relationshipType": relation, "relatedSpdxElement": b} for a, relation, b in relations
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
