"""Raw images of any size give the same bits as timm's and transformers' preprocessing, and files give the pixels that
image viewers show."""

import dataclasses
import io
import json
import os
import pathlib
import re
import tempfile
import unittest
import zlib
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, Status, images

try:
    from PIL import Image, ImageOps, __version__ as pillow_version
except ImportError:
    Image = None
needs_pillow = unittest.skipIf(Image is None, "no Pillow here")
HALF, IMAGENET = ((0.5,) * 3, (0.5,) * 3), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
PHOTO = support.DATA / "chelsea.png"


def noise(width, height):
    """Returns the images of tests/test_preprocess.c."""
    x, out = 12345, bytearray()
    for _ in range(width * height * 3):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(x >> 24)
    return np.frombuffer(bytes(out), np.uint8).reshape(height, width, 3)


def float32(colours):
    return tuple(tuple(float(np.float32(value)) for value in values) for values in colours)


def hf(height, width, resize, fit, filter, colours, processor="hf"):
    return images.Recipe(height, width, *float32(colours), resize, fit, filter, processor)


HF = {
    "CLIP": hf(28, 28, (28, 28), "crop", "bicubic", CLIP),
    "CLIP, beyond the edges": hf(28, 28, (19, 19), "crop", "bicubic", CLIP),
    "CLIP, not square": hf(20, 35, (33, 33), "crop", "bicubic", CLIP),
    "DINOv2": hf(28, 28, (32, 32), "crop", "bicubic", IMAGENET),
    "SigLIP": hf(28, 28, (28, 28), "squash", "bicubic", HALF),
    "SigLIP2": hf(20, 36, (20, 36), "squash", "bilinear", HALF),
    "ViT": hf(28, 28, (28, 28), "squash", "bilinear", HALF),
    "DeiT": hf(28, 28, (32, 32), "squash", "bicubic", IMAGENET),
    "not normalised": hf(28, 28, (28, 28), "squash", "bilinear", ((0,) * 3, (1,) * 3)),
    "DINOv3": hf(28, 28, (28, 28), "squash", "bilinear", IMAGENET, "hf_float"),
}


def vectors():
    """Yields (name, recipe, checksums, every 97th value) of tests/preprocess_vectors.h; of transformers' vectors only
    those of the recipes above."""
    text = (support.ROOT / "tests" / "preprocess_vectors.h").read_text()
    string = r'(NULL|(?:"(?:[^"\\]|\\.)*"\s*)+)'
    for found in re.finditer(
        r'\{"([^"]+)",\s*' + string + r",\s*" + string + r",\s*(\d+), (\d+),\s*\{([^}]*)\},\s*(\d+), *\s*\{(.*?)\}\},",
        text,
        re.S,
    ):
        name, config, _, height, width, checksums, n, values = found.groups()
        recipe = HF.get(name)
        if config != "NULL" and "pretrained_cfg" in config:
            config = json.loads("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', config)).replace('\\"', '"'))[
                "pretrained_cfg"
            ]
            share = config.get("crop_pct", 0.875)
            size = tuple(int(np.floor(edge / share)) for edge in (int(height), int(width)))
            fit = {"center": "crop"}.get(config["crop_mode"], config["crop_mode"])
            recipe = images.Recipe(
                int(height),
                int(width),
                *float32((config["mean"], config["std"])),
                size,
                fit,
                config["interpolation"],
                fill=tuple(round(255 * mean) for mean in config["mean"]),
            )
        if recipe is not None:
            rows = (
                [
                    [float(value.strip("f \n")) for value in row.split(",")]
                    for row in re.findall(r"\{([^{}]+)\}", "{" + values + "}")
                ]
                if int(n)
                else None
            )
            yield name, recipe, [int(value, 16) for value in checksums.split(",")], rows


class RecipeTest(support.Case):
    def test_images_equal_those_of_timm_and_transformers(self):
        found, sizes = 0, [(45, 31), (23, 58), (11, 9), (160, 6), (20, 90), (28, 28)]
        for name, recipe, checksums, values in vectors():
            for number, size in enumerate(sizes):
                with self.subTest(name, size=size):
                    batch = images.prepare(recipe, [noise(*size)])
                    if values is None:
                        self.assertEqual(zlib.crc32(batch.tobytes()), checksums[number])
                    else:
                        self.assertLess(np.abs(batch.ravel()[::97][:25] - values[number]).max(), 1e-5)
            found += 1
        self.assertEqual(found, 13 + len(HF))

    @needs_pillow
    def test_resize_equals_pillow(self):
        if int(pillow_version.split(".")[0]) < 13:
            self.skipTest("older Pillow shrinks tall images in another order")
        for (w, h), size in (
            ((451, 300), (372, 248)),
            ((333, 500), (256, 384)),
            ((37, 600), (224, 24)),
            ((1, 9), (6, 3)),
            ((7, 5), (64, 48)),
        ):
            raw_image = noise(w, h)
            for filter, how in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
                wanted = np.asarray(Image.fromarray(raw_image).resize(size, how))
                recipe = images.Recipe(size[1], size[0], (0, 0, 0), (1, 1, 1), size[::-1], "squash", filter)
                for pixels in (raw_image, np.asfortranarray(raw_image), raw_image[::-1].copy()[::-1]):
                    found = np.rint(images.prepare(recipe, [pixels])[0] * 255).transpose(1, 2, 0)
                    self.assertTrue((found == wanted).all(), (w, h, size, filter))

    def test_invalid_recipes(self):
        good = HF["ViT"]
        for words, change in (
            ("fit is 'stretch'", {"fit": "stretch"}),
            ("filter is 'lanczos'", {"filter": "lanczos"}),
            ("processor is 1", {"processor": 1}),
            ("height is 0", {"height": 0}),
            ("resize is 0", {"resize": (0, 28)}),
            ("std.*above 0", {"std": (0.5, 0.5, 0.0)}),
            ("three values", {"mean": (0.5,)}),
            ("without a crop", {"processor": "hf_float", "resize": (30, 30)}),
        ):
            self.fails(Status.INVALID_ARGUMENT, words, dataclasses.replace, good, **change)

    def test_invalid_images(self):
        recipe, good = HF["ViT"], noise(9, 7)
        for bad in (good.astype(np.float32), good[:, :, 0], good.transpose(2, 0, 1), np.zeros((0, 5, 3), np.uint8), 7):
            self.fails(
                Status.INVALID_ARGUMENT,
                r"^image 1 is .*; expected a path, or uint8 \[height, width, 3\]",
                images.prepare,
                recipe,
                [good, bad, good],
            )
            failures = {}
            batch = images.prepare(recipe, [good, bad, good[:, ::-1]], failures)
            self.assertEqual(
                [(number, error.status) for number, error in failures.items()], [(1, Status.INVALID_ARGUMENT)]
            )
            self.assertTrue((batch == images.prepare(recipe, [good, good[:, ::-1]])).all())
        self.fails(
            Status.UNSUPPORTED,
            "^image 0: 1 x 4000 pixels are too thin",
            images.prepare,
            dataclasses.replace(recipe, fit="border"),
            [noise(1, 4000)],
        )


@needs_pillow
class FileTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    fails = RecipeTest.fails

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def test_orientations(self):
        raw_image = Image.fromarray(noise(10, 7))
        for number in range(1, 9):
            exif = Image.Exif()
            exif[0x112] = number
            for kind in ("jpg", "png"):
                raw_image.save(self.path(f"a.{kind}"), exif=exif)
                with Image.open(self.path(f"a.{kind}")) as file:
                    wanted = np.asarray(ImageOps.exif_transpose(file).convert("RGB"))
                found = images.load(self.path(f"a.{kind}"))
                self.assertEqual(found.shape, (7, 10, 3) if number < 5 else (10, 7, 3))
                self.assertTrue((found == wanted).all())

    def test_kinds(self):
        grey = np.arange(60, dtype=np.uint16).reshape(6, 10) * 1000
        Image.fromarray(grey).save(self.path("16.png"))
        self.assertTrue((images.load(self.path("16.png")) == (grey >> 8)[:, :, None]).all())
        for mode in ("L", "LA", "P", "RGBA", "CMYK", "1"):
            raw_image = Image.fromarray(noise(10, 7)).convert(mode)
            for kind in {"CMYK": ("jpg",), "LA": ("png",)}.get(mode, ("png", "webp", "bmp", "tif")):
                name = self.path(f"{mode}.{kind}")
                raw_image.save(name, **({"lossless": True} if kind == "webp" else {}))
                with Image.open(name) as file:
                    self.assertTrue((images.load(name) == np.asarray(file.convert("RGB"))).all(), mode)

    def test_pillow_images_equal_their_files(self):
        """Pillow images are treated as their files, whether opened, loaded or made in memory."""
        exif = Image.Exif()
        exif[0x112] = 6
        grey = Image.fromarray(np.arange(70, dtype=np.uint16).reshape(7, 10) * 900)
        colours = Image.fromarray(noise(10, 7))
        raw_images = [
            (colours, "jpg", {"exif": exif}),
            (colours, "webp", {"exif": exif, "lossless": True}),
            (grey, "png", {"exif": exif}),
            (colours.convert("CMYK"), "jpg", {"exif": exif}),
        ]
        raw_images += [(colours.convert(mode), "png", {"exif": exif}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")]
        for raw_image, kind, options in raw_images:
            path = self.path(f"{raw_image.mode.replace(';', '')}.{kind}")
            raw_image.save(path, **options)
            wanted = images.load(path)
            self.assertEqual(wanted.shape, (10, 7, 3))
            with Image.open(path) as file:
                for found in (file, file.copy(), file.convert("RGB") if file.mode[0] != "I" else file):
                    np.testing.assert_array_equal(images.read([found])[0], wanted, raw_image.mode)
                    np.testing.assert_array_equal(images.prepare(HF["ViT"], [found]), images.prepare(HF["ViT"], [path]))
                # not turned twice
                np.testing.assert_array_equal(images.read([ImageOps.exif_transpose(file)])[0], wanted)
        self.assertEqual(
            images.read([grey])[0].tolist(),
            [[[value >> 8] * 3 for value in line] for line in np.asarray(grey).tolist()],
        )
        np.testing.assert_array_equal(
            images.read([Image.fromarray(np.asarray(grey).astype(np.int32))])[0], images.read([grey])[0]
        )

    def test_one_pillow_image_many_times(self):
        Image.fromarray(noise(300, 300)).save(self.path("once.jpg"))
        wanted = images.prepare(HF["ViT"], [self.path("once.jpg")])
        for _ in range(20):
            with Image.open(self.path("once.jpg")) as file:
                for found in images.prepare(HF["ViT"], [file] * 4):
                    np.testing.assert_array_equal(found, wanted[0])

    def test_invalid_pillow_images(self):
        wide = Image.fromarray(np.full((4, 4), 70000, np.int32))
        cut = io.BytesIO()
        Image.fromarray(noise(50, 40)).save(cut, "JPEG")
        with Image.open(io.BytesIO(cut.getvalue()[:1500])) as file:
            for raw_image, words in (
                (wide, "grey values from 70000 to 70000"),
                (Image.new("F", (4, 4)), "float32"),
                (file, "truncated"),
                (Image.new("La", (4, 4)), "conversion"),
                (Image.new("RGB", (0, 4)), "0 x 4"),
            ):
                self.fails(
                    Status.INVALID_ARGUMENT, f"^image 1: .*{words}", images.prepare, HF["ViT"], [noise(9, 9), raw_image]
                )
                self.fails(Status.INVALID_ARGUMENT, f"^image 0: .*{words}", images.read, [raw_image])
        for raw_image in (wide, Image.new("F", (4, 4))):
            raw_image.save(self.path("wide.tif"))
            self.fails(Status.BAD_FILE, "wide.tif: grey values", images.load, self.path("wide.tif"))
        with mock.patch.object(images, "MOST_PIXELS", 100):
            self.fails(
                Status.INVALID_ARGUMENT, "^image 0: 50 x 40 pixels; 100 in all", images.read, [Image.new("L", (50, 40))]
            )

    def test_invalid_files(self):
        Image.fromarray(noise(50, 40)).save(self.path("whole.jpg"))
        self.path("cut.jpg").write_bytes(self.path("whole.jpg").read_bytes()[:1500])
        self.path("text.jpg").write_text("no image")
        for name, words in (
            ("cut.jpg", "truncated"),
            ("text.jpg", "cannot identify"),
            ("none.jpg", "No such file"),
            ("", "directory"),
        ):
            self.fails(
                Status.BAD_FILE,
                f"^image 1: {re.escape(str(self.path(name)))}: .*{words}",
                images.prepare,
                HF["ViT"],
                [self.path("whole.jpg"), str(self.path(name)), self.path("whole.jpg")],
            )
        self.fails(Status.INVALID_ARGUMENT, "NUL|path", images.load, "a\0b")
        with mock.patch.object(images, "MOST_PIXELS", 100):
            self.fails(Status.BAD_FILE, "50 x 40 pixels; 100 in all", images.load, self.path("whole.jpg"))

    def test_bytes(self):
        Image.fromarray(noise(50, 40)).save(self.path("whole.jpg"))
        data = self.path("whole.jpg").read_bytes()
        for kind in (bytes, bytearray, memoryview):
            self.assertTrue((images.decode(kind(data)) == images.load(self.path("whole.jpg"))).all())
        self.fails(Status.BAD_FILE, "^image file is truncated", images.decode, data[:1500])
        self.fails(Status.BAD_FILE, "^cannot identify the format of the image$", images.decode, b"no image")

    def test_without_pillow(self):
        with mock.patch.dict("sys.modules", {"PIL": None}):
            self.fails(Status.UNAVAILABLE, r"pip install \"raggedvit\[images\]\"", images.load, "a.jpg")


class ModelTest(unittest.TestCase):
    fails = RecipeTest.fails

    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.tiles = (
            support.png_rows(support.DATA / "cifar10_test_1000.png", 32)
            .reshape(32, 40, 32, 3)
            .transpose(1, 0, 2, 3)[:5]
        )

    def test_uint8_arrays(self):
        model, squash = self.model, dataclasses.replace(self.model.recipe, fit="squash", resize=(224, 224))
        recipe = model.recipe
        self.assertEqual(
            (recipe.height, recipe.resize, recipe.fit, recipe.filter), (224, (248, 248), "crop", "bicubic")
        )
        wanted = model.classify(support.tiles(5), Policy("l2", keep=0.5))
        model.recipe = squash
        try:
            for batch in (np.ascontiguousarray(self.tiles), list(self.tiles), tuple(self.tiles)):
                found = model.classify(batch, Policy("l2", keep=0.5))
                self.assertLess(np.abs(found.logits - wanted.logits).max(), 1e-5)
                self.assertTrue(all((a == b).all() for a, b in zip(found.kept[0], wanted.kept[0])))
        finally:
            model.recipe = recipe
        found = model.classify([self.tiles[0], noise(500, 375), noise(31, 90)]).logits
        for i, raw_image in enumerate((self.tiles[0], noise(500, 375), noise(31, 90))):
            self.assertTrue((model.classify([raw_image]).logits[0] == found[i]).all())
        self.assertEqual(model.classify(np.zeros((0, 9, 9, 3), np.uint8)).logits.shape, (0, 10))

    @needs_pillow
    def test_files(self):
        photo = images.load(PHOTO)
        found = self.model.classify([PHOTO, str(PHOTO), photo]).logits
        self.assertTrue((found == found[0]).all())
        self.assertEqual(found[0].argmax(), 3)
        chance = np.exp(found[0]) / np.exp(found[0]).sum()
        self.assertAlmostEqual(chance[3], 0.822, 3)  # the command line tool's result
        self.fails(Status.BAD_FILE, "^image 1: none.jpg: .*No such file", self.model.classify, [PHOTO, "none.jpg"])

    def test_refusals(self):
        self.fails(
            Status.INVALID_ARGUMENT,
            "^image 1 is float32",
            self.model.classify,
            [self.tiles[0], np.zeros((3, 224, 224), np.float32)],
        )
        self.fails(
            Status.INVALID_ARGUMENT,
            r"the recipe makes images of \[3, 28, 28\], the model takes \[3, 224, 224\]",
            setattr,
            self.model,
            "recipe",
            HF["ViT"],
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.safetensors"
            os.symlink(support.CHECKPOINT.resolve(), path)
            path.with_name("config.json").write_text('{"architecture": "vit", "model_args": {"num_heads": 3}}')
            model = raggedvit.Model(path, device="cpu", n_threads=1)
            self.fails(
                Status.UNSUPPORTED,
                "has the mean and the standard deviation.*set model.recipe",
                model.classify,
                [self.tiles[0]],
            )
            model.recipe = self.model.recipe
            self.assertEqual(model.classify([self.tiles[0]]).logits.shape, (1, 10))
            path.with_name("config.json").write_text(
                '{"architecture": "deit_tiny_patch16_224", "pretrained_cfg": {"interpolation": "lanczos"}}'
            )
            model = raggedvit.Model(path, device="cpu", n_threads=1)
            self.fails(Status.UNSUPPORTED, "in a way that is not supported", model.classify, [self.tiles[0]])


if __name__ == "__main__":
    unittest.main()
