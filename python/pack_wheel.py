#!/usr/bin/env python3
"""Packs the package and a library into a wheel: python/pack_wheel.py LIBRARY FOLDER. Prints the wheel's path.

Libraries that LIBRARY needs beyond the C library go in beside it, with their licences; LIBRARY must look for them there (a run path of
$ORIGIN), as python/build_wheel.sh builds it. The platform tag names the oldest glibc that has every symbol used.
"""

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
C_LIBRARY = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[\w-]*)\.so")


class UnknownLicence(SystemExit):
    pass


def version():
    text = (HERE.parent / "include" / "raggedvit" / "status.h").read_text()
    return ".".join(re.search(rf"RVIT_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def needed(library):
    """The files of the libraries that are not the system's own: name -> path."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", str(library)), flags=re.M)
    return {name: pathlib.Path(path) for name, path in found if not C_LIBRARY.match(name)}


def tag(files):
    versions = [tuple(map(int, v.split("."))) for f in files for v in re.findall(r"GLIBC_(\d+\.\d+)", output("objdump", "-T", str(f)))]
    major, minor = max(versions, default=(2, 17))
    return f"py3-none-manylinux_{major}_{max(minor, 17)}_{platform.machine()}"


def licence(path):
    """Debian's copyright file of the package that a library is from."""
    for name in (path, path.resolve(), pathlib.Path("/usr") / str(path).lstrip("/")):
        found = subprocess.run(["dpkg-query", "-S", str(name)], capture_output=True, text=True).stdout
        if found:
            return pathlib.Path("/usr/share/doc") / found.split(":")[0] / "copyright"
    raise UnknownLicence(f"{path}: no Debian package holds it, so its licence is not known")


def metadata():
    return "\n".join([
        "Metadata-Version: 2.1", "Name: raggedvit", f"Version: {version()}", "Summary: Token-pruned Vision Transformers, run ragged",
        "License: Apache-2.0", "Requires-Python: >=3.9", "Requires-Dist: numpy>=1.21", "Description-Content-Type: text/markdown", "",
        (HERE / "README.md").read_text()])


def pack(library, folder):
    library, folder = pathlib.Path(library).resolve(), pathlib.Path(folder)
    others, info = needed(library), f"raggedvit-{version()}.dist-info"
    name = tag([library, *others.values()])
    files = {f"raggedvit/{path.name}": path.read_bytes()
             for path in sorted((HERE / "raggedvit").iterdir()) if path.suffix == ".py" or path.name == "py.typed"}
    files["raggedvit/libraggedvit.so.0"] = library.read_bytes()
    files[f"{info}/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    for other, path in others.items():
        files[f"raggedvit/{other}"] = path.read_bytes()
        files[f"{info}/licenses/{other}.txt"] = licence(path).read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: raggedvit\nRoot-Is-Purelib: false\nTag: {name}\n".encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = folder / f"raggedvit-{version()}-{name}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))  # a fixed time: equal contents make equal wheels
            entry.external_attr, entry.compress_type = (0o755 if ".so" in path else 0o644) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(pack(sys.argv[1], sys.argv[2]))
