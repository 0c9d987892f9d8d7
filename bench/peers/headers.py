"""The library's structs, enums and functions for ctypes, read from its public headers: there is no second copy of a layout to go stale."""

import ctypes
import pathlib
import re
import subprocess
import tempfile

SCALARS = {
    "int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "uint8_t": ctypes.c_uint8, "size_t": ctypes.c_size_t, "float": ctypes.c_float, "double": ctypes.c_double, "char": ctypes.c_char,
    "void": None,
}


def _strip(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    return re.sub(r"//[^\n]*", " ", text)


class Headers:
    """types: ctypes class of each struct and enum; constants: enum values and numeric macros; functions: name -> (result, arguments,
    whether the result is an rvit_status)."""

    def __init__(self, include):
        folder = pathlib.Path(include) / "raggedvit"
        names = ["status.h", "device.h", "ragged.h", "prune.h", "vit.h", "cuda.h"]
        text = "\n".join(_strip((folder / name).read_text()) for name in names)
        self.include, self.types, self.constants, self.functions = include, {}, {}, {}
        self.structs, self._defaults = {}, {}
        for name, value in re.findall(r"^\s*#\s*define\s+(RVIT_\w+)\s+(\d+)\s*$", text, flags=re.M):
            self.constants[name] = int(value)
        for name, value in re.findall(r"^\s*#\s*define\s+(RVIT_\w+_INIT)\s+(\{.*\}|RVIT_INIT\(\w+\))\s*$", text, flags=re.M):
            self._defaults[name] = value
        body = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        for name in re.findall(r"typedef\s+[\w\s*]+\(\s*\*\s*(\w+)\s*\)", body):
            self.types[name] = ctypes.c_void_p
        for match in re.finditer(r"typedef\s+(enum|struct)\s+(\w+)\s*\{(.*?)\}\s*(\w+)\s*;", body, flags=re.S):
            if match[1] == "enum":
                self._enum(match[4], match[3])
            else:
                self._struct(match[4], match[3])
        for result, name, arguments in re.findall(r"RVIT_API\s+([\w\s*]+?)\b(rvit_\w+)\s*\(([^()]*)\)\s*;", body):
            result = result.replace("RVIT_NODISCARD", "").strip()
            given = [] if arguments.strip() == "void" else [self._type(re.sub(r"\w+$", "", a.strip())) for a in arguments.split(",")]
            self.functions[name] = (self._type(result), given, result == "rvit_status")

    def _enum(self, name, body):
        value = -1
        for entry in filter(None, (e.strip() for e in body.split(","))):
            label, _, number = (part.strip() for part in entry.partition("="))
            value = int(number, 0) if number else value + 1
            self.constants[label] = value
        self.types[name] = ctypes.c_int

    def _type(self, text):
        text = re.sub(r"\b(const|struct|enum)\b", "", text).strip()
        if text.endswith("*"):
            return ctypes.c_char_p if text.replace(" ", "") == "char*" else ctypes.c_void_p
        return SCALARS[text] if text in SCALARS else self.types[text]

    def _struct(self, name, body):
        fields = []
        for line in filter(None, (l.strip() for l in body.split(";"))):
            if "(*" in line.replace(" ", ""):
                fields.append((re.search(r"\(\s*\*\s*(\w+)", line)[1], ctypes.c_void_p))
                continue
            first, *rest = line.split(",")
            base, declarator = re.match(r"((?:const\s+)?(?:struct\s+)?\w+)\s*(.*)", first, flags=re.S).groups()
            for one in [declarator, *rest]:
                stars, field, dimension = re.match(r"\s*(\**)\s*(\w+)\s*(?:\[(\w+)\])?", one).groups()
                kind = ctypes.c_void_p if stars else self._type(base)
                if dimension:
                    kind = kind * (int(dimension) if dimension.isdigit() else self.constants[dimension])
                fields.append((field, kind))
        self.structs[name] = [field for field, _ in fields]
        self.types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})

    def new(self, name, **values):
        """A struct as its RVIT_..._INIT makes it, then the fields given."""
        struct = self.types[name]()
        macro = self._defaults.get(name.upper() + "_INIT", "")
        if macro.startswith("{"):
            self._fill(struct, self._tokens(macro))
        elif hasattr(struct, "struct_size"):
            struct.struct_size = ctypes.sizeof(struct)
        for field, value in values.items():
            if field not in self.structs[name]:
                raise AttributeError(f"{name} has no field {field}")
            setattr(struct, field, value)
        return struct

    def _tokens(self, macro):
        stack = [[]]
        for token in re.findall(r"sizeof\s*\(\w+\)|[{}]|[-\w.]+", macro):
            if token == "{":
                stack.append([])
            elif token == "}":
                done = stack.pop()
                stack[-1].append(done)
            elif token in self._defaults:
                stack[-1].append(self._tokens(self._defaults[token]))
            else:
                stack[-1].append(token)
        return stack[0][0]

    def _fill(self, struct, tokens):
        for (field, kind), token in zip(struct._fields_, tokens):
            if isinstance(token, list):
                if issubclass(kind, ctypes.Structure):
                    self._fill(getattr(struct, field), token)
            elif token.startswith("sizeof"):
                setattr(struct, field, ctypes.sizeof(self.types[re.search(r"\((\w+)\)", token)[1]]))
            elif token != "NULL":
                number = self.constants[token] if token in self.constants else float(token)
                setattr(struct, field, number if kind in (ctypes.c_float, ctypes.c_double) else int(number))

    def check_layout(self, compiler="cc"):
        """Compares every size, offset and default with a C compiler's. Returns the number of structs compared."""
        lines = ["#include <stdio.h>", "#include <raggedvit/raggedvit.h>", "#include <raggedvit/cuda.h>", "int main(void) {"]
        for name, fields in self.structs.items():
            lines.append(f'printf("{name} %zu", sizeof({name}));')
            lines += [f'printf(" %zu", offsetof({name}, {field}));' for field in fields]
            lines.append('puts("");')
            if name.upper() + "_INIT" in self._defaults:
                lines.append(f"{{ {name} v = {name.upper()}_INIT; const unsigned char *b = (const unsigned char *)&v;"
                             f' printf("{name}="); for (size_t i = 0; i < sizeof v; i++) printf("%02x", b[i]); puts(""); }}')
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "layout.c"
            source.write_text("\n".join(lines + ["return 0; }"]))
            subprocess.run([compiler, "-std=c11", f"-I{self.include}", "-o", f"{folder}/layout", str(source)], check=True)
            output = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            if "=" in line:
                name, wanted = line.split("=")
                found = bytes(self.new(name)).hex()
            else:
                name, *wanted = line.split()
                struct = self.types[name]
                found = [str(ctypes.sizeof(struct))] + [str(getattr(struct, f).offset) for f in self.structs[name]]
            if found != wanted:
                raise AssertionError(f"{name}: the compiler says {wanted}, ctypes {found}")
        return len(self.structs)
