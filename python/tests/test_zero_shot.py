"""raggedvit classify --text-embeddings gives the same probabilities for image files as CLIPModel and SiglipModel, with
tiny random models."""

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np

import support
import modules
from modules import torch

SIZE, N_IMAGES = 32, 3


def tool():
    """Returns the command line tool in the build folder of the library under test."""
    path = pathlib.Path(os.environ.get("RAGGEDVIT_LIBRARY", "")).resolve().parent / "tools" / "raggedvit"
    if not path.exists():
        raise unittest.SkipTest("the command line tool is not in the build folder of the library")
    return path


def text_embeddings():
    spec = importlib.util.spec_from_file_location("text_embeddings", support.ROOT / "tools" / "text_embeddings.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(support.ROOT / "tools"))
    spec.loader.exec_module(module)
    return module


def write_png(path, pixels):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


class ZeroShotTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import transformers
        except ImportError:
            raise unittest.SkipTest("transformers is not installed")
        cls.transformers, cls.tool, cls.texts = transformers, tool(), text_embeddings()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        generator = np.random.default_rng(5)
        pixels = generator.integers(0, 256, (N_IMAGES, SIZE, SIZE, 3), np.uint8)
        for i, image in enumerate(pixels):
            write_png(cls.folder / f"{i}.png", image)
        cls.x = torch.from_numpy(pixels.astype(np.float32) / 255).permute(0, 3, 1, 2) * 2 - 1
        cls.labels = [f"label {i}" for i in range(7)]
        (cls.folder / "labels.txt").write_text("\n".join(cls.labels))
        cls.tokens = torch.from_numpy(generator.integers(3, 49, (7, 10)))
        cls.tokens[:, -1] = 49  # CLIP uses the row of the largest token id

    def model(self, name, config, **options):
        folder = self.folder / name
        encoder = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=2)
        text = dict(encoder, vocab_size=50, max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
        made = getattr(self.transformers, config)(
            text_config=text, vision_config=dict(encoder, image_size=SIZE, patch_size=8), **options
        )
        module = modules.randomize(getattr(self.transformers, name)(made))
        with torch.no_grad():
            module.logit_scale.fill_(1.7)
            if getattr(module, "logit_bias", None) is not None:
                module.logit_bias.fill_(-2.5)
        module.save_pretrained(folder)
        with torch.no_grad():
            wanted = module(input_ids=self.tokens, pixel_values=self.x).logits_per_image
            embeddings = self.texts.features(module.get_text_features(input_ids=self.tokens))
        return module, wanted, embeddings * 3  # the tool normalises rows

    def write(self, embeddings, model=None, dtype=None):
        path = self.folder / "texts.safetensors"
        if dtype is None:
            self.texts.write(path, embeddings, model)
        else:
            from safetensors.torch import save_file

            save_file({"text_embeddings": embeddings.to(dtype)}, path)
        return path

    def run_tool(self, code, checkpoint, texts, *more):
        found = subprocess.run(
            [
                self.tool,
                "classify",
                checkpoint,
                *(self.folder / f"{i}.png" for i in range(N_IMAGES)),
                "--backend",
                "cpu",
                "--text-embeddings",
                texts,
                "--labels",
                self.folder / "labels.txt",
                "--mean",
                "0.5",
                "--std",
                "0.5",
                "--crop",
                "1",
                *more,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(found.returncode, code, found.stderr)
        return found

    def results(self, *arguments):
        return json.loads(self.run_tool(0, *arguments, "--json", "--top", "7").stdout)

    def compare(self, result, logits, probabilities, most=2e-5):
        for image, wanted_logits, wanted in zip(result["images"], logits, probabilities):
            np.testing.assert_allclose(image["logits"], wanted_logits, atol=20 * most)
            self.assertEqual(
                [self.labels[best["class"]] for best in image["top"]], [best["label"] for best in image["top"]]
            )
            self.assertEqual([best["class"] for best in image["top"]], np.argsort(-wanted_logits.numpy()).tolist())
            for best in image["top"]:
                self.assertAlmostEqual(best["probability"], float(wanted[best["class"]]), delta=most)

    def test_clip(self):
        module, logits, embeddings = self.model("CLIPModel", "CLIPConfig", projection_dim=24)
        checkpoint = self.folder / "CLIPModel" / "model.safetensors"
        result = self.results(checkpoint, self.write(embeddings))
        self.assertEqual((result["texts"]["scores"], result["texts"]["n"]), ("softmax", 7))
        self.assertAlmostEqual(result["texts"]["scale"], np.exp(1.7), delta=1e-5)
        self.compare(result, logits, logits.softmax(-1))
        for dtype, most in ((torch.float16, 1e-3), (torch.bfloat16, 1e-2)):
            result = self.results(checkpoint, self.write(embeddings, dtype=dtype))
            for image, wanted in zip(result["images"], logits.softmax(-1)):
                for best in image["top"]:
                    self.assertAlmostEqual(best["probability"], float(wanted[best["class"]]), delta=most)
        text = self.run_tool(0, checkpoint, self.write(embeddings)).stdout
        self.assertRegex(text, r"texts   7, 24 wide; softmax of 5\.47395 x cosine\n")
        best = logits.softmax(-1)[0].max()
        self.assertRegex(text, f"  +{100 * best:.1f} %  label {int(logits[0].argmax())}\n")

        # The vision model does not contain the scale.
        config = self.transformers.CLIPVisionConfig(**{**module.config.vision_config.to_dict(), "projection_dim": 24})
        encoder = self.transformers.CLIPVisionModelWithProjection(config).eval()
        encoder.load_state_dict(
            {name: value for name, value in module.state_dict().items() if name in encoder.state_dict()}
        )
        encoder.save_pretrained(self.folder / "clip encoder")
        result = self.results(self.folder / "clip encoder" / "model.safetensors", self.write(embeddings))
        self.compare(result, 100 / np.exp(1.7) * logits, (100 / np.exp(1.7) * logits).softmax(-1), 2e-4)

    def test_the_script(self):
        """Starts from the labels, with the script and its tokenizer."""
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        module = self.model("CLIPModel", "CLIPConfig", projection_dim=24)[0]
        words = ["<pad>", "<s>", "</s>", *"abcdefghij", "photo", "of", *(f"kind{i}" for i in range(7)), "<end>"]
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<pad>"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A <end>", special_tokens=[("<s>", 1), ("<end>", len(words) - 1)]
        )
        fast = self.transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
        folder, texts, labels = (
            self.folder / "CLIPModel",
            self.folder / "by script.safetensors",
            self.folder / "kinds.txt",
        )
        fast.save_pretrained(folder)
        labels.write_text("\n".join(f"kind{i}" for i in range(7)))
        templates = ["a photo of {}", "{} b c"]
        script = [sys.executable, support.ROOT / "tools" / "text_embeddings.py", folder, labels, "--out", texts]
        found = subprocess.run(
            [*script, *(part for t in templates for part in ("--template", t))],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(found.returncode, 0, found.stderr)
        normalize = torch.nn.functional.normalize
        with torch.no_grad():
            rows = [
                normalize(
                    self.texts.features(
                        module.get_text_features(
                            **fast(
                                [t.replace("{}", f"kind{i}") for i in range(7)],
                                padding=True,
                                return_tensors="pt",
                                return_token_type_ids=False,
                            )
                        )
                    ),
                    dim=-1,
                )
                for t in templates
            ]
            images = normalize(self.texts.features(module.get_image_features(self.x)), dim=-1)
            logits = np.exp(1.7) * images @ normalize(sum(rows), dim=-1).T
        self.compare(self.results(folder / "model.safetensors", texts), logits, logits.softmax(-1))
        found = subprocess.run([*script, "--template", "none"], capture_output=True, text=True, timeout=300)
        self.assertEqual(found.returncode, 2)

    def test_siglip(self):
        module, logits, embeddings = self.model("SiglipModel", "SiglipConfig")
        checkpoint = self.folder / "SiglipModel" / "model.safetensors"
        result = self.results(checkpoint, self.write(embeddings))
        self.assertEqual((result["texts"]["scores"], result["texts"]["bias"]), ("sigmoid", -2.5))
        self.compare(result, logits, logits.sigmoid())
        # With only the vision model, scale and bias come from the file of the texts; without them, there are only
        # cosines.
        encoder = self.transformers.SiglipVisionModel(module.config.vision_config).eval()
        encoder.load_state_dict(
            {name: value for name, value in module.state_dict().items() if name.startswith("vision_model.")}
            if any(name.startswith("vision_model.") for name in encoder.state_dict())
            else module.vision_model.state_dict()
        )
        encoder.save_pretrained(self.folder / "encoder")
        checkpoint = self.folder / "encoder" / "model.safetensors"
        self.compare(self.results(checkpoint, self.write(embeddings, module)), logits, logits.sigmoid())
        result = self.results(checkpoint, self.write(embeddings))
        self.assertEqual(result["texts"]["scores"], "cosine")
        cosines = (logits + 2.5) / np.exp(1.7)
        for image, wanted in zip(result["images"], cosines):
            np.testing.assert_allclose(image["logits"], wanted, atol=2e-5)
            self.assertIsNone(image["top"][0]["probability"])
        self.assertRegex(
            self.run_tool(0, checkpoint, self.write(embeddings)).stdout, "cosine, not a probability: no file has"
        )

    def test_pruning_and_expected_labels(self):
        _, logits, embeddings = self.model("CLIPModel", "CLIPConfig", projection_dim=24)
        right = self.folder / "right.txt"
        right.write_text("\n".join(self.labels[int(i)] for i in logits.argmax(-1)))
        checkpoint, texts = self.folder / "CLIPModel" / "model.safetensors", self.write(embeddings)
        self.assertRegex(
            self.run_tool(0, checkpoint, texts, "--expect", right).stdout, r"top-1        100\.0 % \(3 of 3\)"
        )
        pruned = self.results(checkpoint, texts, "--prune", "evit", "--keep", "0.5", "--blocks", "1")
        self.assertLess(pruned["images"][0]["tokens_kept"][0], 17)

    def test_refusals(self):
        from safetensors.torch import save_file

        self.model("CLIPModel", "CLIPConfig", projection_dim=24)
        checkpoint, path = self.folder / "CLIPModel" / "model.safetensors", self.folder / "bad.safetensors"
        good, broken, zero = torch.ones(7, 24), torch.ones(7, 24), torch.ones(7, 24)
        broken[3, 5], zero[2] = float("nan"), 0
        for tensors, words, more in (
            (
                {"t": torch.ones(7, 25)},
                "bad.safetensors: the text embeddings are 25 wide, the model's image embeddings 24",
                (),
            ),
            (
                {"t": torch.ones(6, 24)},
                "labels.txt: 7 class names, but .*bad.safetensors has embeddings of 6 texts",
                (),
            ),
            ({"t": broken}, "bad.safetensors: the embedding of text 3 is not finite", ()),
            ({"t": zero}, "bad.safetensors: the embedding of text 2 is zero", ()),
            ({"t": torch.ones(24)}, "bad.safetensors: has no tensor with two dimensions", ()),
            ({"t": torch.ones(7, 24, dtype=torch.int64)}, "tensor 't': dtype is I64, expected F32, F16 or BF16", ()),
            (
                {"t": good, "u": good.clone()},
                "has 2 tensors with two dimensions, '[tu]' is the first; choose one with --text-tensor",
                (),
            ),
            ({"t": good}, "bad.safetensors: there is no tensor 'v'", ("--text-tensor", "v")),
            ({"t": torch.ones(0, 24)}, "has embeddings of 0 texts", ()),
        ):
            save_file(tensors, path)
            self.assertRegex(self.run_tool(4, checkpoint, path, *more).stderr, words)
        save_file({"t": good, "u": torch.ones(3, 24)}, path)
        self.run_tool(0, checkpoint, path, "--text-tensor", "t")
        self.assertRegex(self.run_tool(4, checkpoint, self.folder / "none.safetensors").stderr, "none.safetensors")
        path.write_bytes(b"\xff" * 40)
        self.assertRegex(self.run_tool(4, checkpoint, path).stderr, "bad.safetensors")


if __name__ == "__main__":
    unittest.main()
