"""The command line tool and the package apply the same orientation, whatever the EXIF and XMP data of an image, and a
Pillow image is oriented like its file. tests/test_orientation.c lists each kind."""

import io
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest
import warnings
import zlib

import numpy as np

import support  # noqa: F401 (finds the package)
from raggedvit import images
from raggedvit._c.library import find

try:
    from PIL import Image, __version__ as pillow_version
except ImportError:
    Image, pillow_version = None, "0"
TOOL = pathlib.Path(find()).resolve().parent / "tools" / "raw_pixels"
FORMATS = {
    1: "B",
    2: "c",
    3: "H",
    4: "L",
    5: "LL",
    6: "b",
    7: "B",
    8: "h",
    9: "l",
    10: "ll",
    11: "f",
    12: "d",
    13: "L",
    16: "Q",
}
PROFILE, XMP = b"Raw profile type exif\0", b"XML:com.adobe.xmp\0"


class Maker:
    """Creates files of 5 x 3 pixels with random EXIF and XMP data of all kinds."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.pixels = np.frombuffer(random.Random(1).randbytes(45), np.uint8).reshape(3, 5, 3)

    def some(self, usual, *others):
        return self.r.choice(others) if self.r.random() < 0.3 else usual

    def tiff(self):
        order, entries, values, n = self.r.choice("<>"), b"", b"", self.r.choice([0, 1, 1, 1, 2, 4])
        for _ in range(n):
            tag, kind = self.r.choice([0x112, 0x112, 0x112, 0x10F, 0x8769]), self.some(3, *FORMATS, 0, 14, 99)
            value, count = self.some(6, 0, 1, 2, 3, 4, 5, 7, 8, 9, 100), self.some(1, 0, 2, 3, 5, 1 << 31)
            form = order + FORMATS.get(kind, "H")
            numbers = [str(value)[:1].encode()] if kind == 2 else [2 * value, 2] if len(form) == 3 else [value]
            data = struct.pack(form, *numbers) * min(count, 5)
            if struct.calcsize(form) * count > 4:
                place = self.some(14 + 12 * n + len(values), 0, 100000)
                values += data
                data = struct.pack(order + "L", place)
            entries += struct.pack(order + "HHL", tag, kind, count) + data.ljust(4, b"\0")
        magic = self.some({"<": b"II*\0", ">": b"MM\0*"}[order], b"II\0*", b"MM*\0", b"II+\0", b"XX*\0")
        whole = (
            magic
            + struct.pack(order + "LH", self.some(8, 8, 2, 100000), self.some(n, n + 1, 0))
            + entries
            + bytes(4)
            + values
        )
        return whole[: self.some(len(whole), self.r.randrange(len(whole) + 1))]

    def xmp(self):
        form = self.some(
            '<x tiff:Orientation="%d"/>',
            "<tiff:Orientation>%d<",
            "tiff:Orientation='%d'",
            'tiff:Orientation 6 tiff:Orientation="%d',
        )
        return (form % self.r.randrange(10)).encode()

    def prefix(self):
        return self.some(b"", b"Exif\0\0", b"Exif\0\0Exif\0\0")

    def jpeg(self):
        whole, segments = self.encoded("JPEG", quality=95), b""
        for _ in range(self.r.choice([1, 1, 2, 3])):
            body = self.r.choice(
                [b"Exif\0\0" + self.prefix()[:6] + self.tiff(), b"http://ns.adobe.com/xap/1.0/\0" + self.xmp()]
            )
            segments += b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
        return whole[:2] + segments + whole[self.r.choice([2, 20]) :]  # without JFIF, too

    def png(self):
        whole = self.encoded("PNG")
        places = [0, whole.index(b"IDAT") - 4, whole.index(b"IEND") - 4, len(whole)]
        parts = [whole[begin:end] for begin, end in zip(places, places[1:])]
        return parts[0] + self.chunks() + parts[1] + self.chunks() + parts[2]

    def chunks(self):
        out = b""
        for _ in range(self.r.choice([0, 1, 1, 2])):
            data = self.prefix() + self.tiff()
            text = b"\nexif\n%8d\n%s\n" % (
                len(data),
                self.some(data.hex(), data.hex()[:-1], data.hex().upper(), "zz").encode(),
            )
            name, body = self.r.choice(
                [
                    (b"eXIf", data),
                    (b"eXIf", data),
                    (b"tEXt", PROFILE + text),
                    (b"zTXt", PROFILE + b"\0" + zlib.compress(text)),
                    (b"iTXt", PROFILE + b"\1\0\0\0" + zlib.compress(text)),
                    (b"iTXt", XMP + b"\0\0en\0k\0" + self.xmp()),
                    (b"iTXt", XMP + b"\1\0\0\0" + zlib.compress(self.xmp())),
                    (b"tEXt", XMP + self.xmp()),
                    (b"tEXt", b"exif\0" + data),
                ]
            )
            out += struct.pack(">L", len(body)) + name + body + struct.pack(">L", zlib.crc32(name + body))
        return out

    def webp(self):
        body = (
            b"VP8X"
            + struct.pack("<LLHBHB", 10, self.some(12, 4, 8), 4, 0, 2, 0)
            + self.encoded("WEBP", lossless=True)[12:]
        )
        for name, data in ((b"EXIF", self.prefix() + self.tiff()), (b"XMP ", self.xmp()))[self.r.choice([0, 0, 1]) :]:
            body += name + struct.pack("<L", len(data)) + data + b"\0" * (len(data) % 2)
        return b"RIFF" + struct.pack("<L", len(body) + 4) + b"WEBP" + body

    def encoded(self, kind, **options):
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, kind, **options)
        return file.getvalue()


@unittest.skipIf(int(pillow_version.split(".")[0]) < 13, "needs Pillow 13, which has the same rule as the tool")
@unittest.skipUnless(TOOL.exists(), "the command line tool is not in the build folder of the library")
class TurnedTest(unittest.TestCase):
    def test_tool_package_and_pillows_images(self):
        for kind in ("jpeg", "png", "webp"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's, of EXIF data
                maker, paths, turned = Maker(7), [], 0
                for number in range(600):
                    paths.append(pathlib.Path(folder, f"{number}.{kind}"))
                    paths[-1].write_bytes(getattr(maker, kind)())
                done = subprocess.run([TOOL, *paths], capture_output=True)
                if b"built without libwebp" in done.stderr:
                    self.skipTest("the tool reads no WebP")
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                by_tool = np.frombuffer(done.stdout, np.uint8).reshape(-1, 45)
                for path, wanted in zip(paths, by_tool):
                    found = images.load(path)
                    self.assertEqual(found.tobytes(), wanted.tobytes(), path.read_bytes())
                    with Image.open(path) as file:
                        again = images.read([file])[0]
                    self.assertEqual((again.shape, again.tobytes()), (found.shape, found.tobytes()))
                    turned += found.shape[0] == 5
                self.assertGreater(turned, 60)
