"""Tests raggedvit.ray without Ray, in one process, with dicts of columns. test_ray_cluster.py runs it under Ray."""

import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
import raggedvit.ray
from raggedvit import Policy, RaggedVitError, Status
from raggedvit.ray import Classifier, decode
from test_cuda import why_not_plain

try:
    from PIL import Image
except ImportError:
    Image = None
needs_pillow = unittest.skipIf(Image is None, "no Pillow here")
SHAPES = [(48, 64), (64, 48), (33, 90), (70, 70), (20, 31)]


def raw_images(n, seed=3):
    random = np.random.default_rng(seed)
    return [random.integers(0, 256, (*SHAPES[i % len(SHAPES)], 3), np.uint8) for i in range(n)]


def column(values):
    """Returns a column like those of Ray: an array of objects, which are read-only views."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        out[i] = value
    return out


def encoded(raw_image, kind="JPEG"):
    file = io.BytesIO()
    Image.fromarray(raw_image).save(file, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return file.getvalue()


def small(**changes):
    """Returns a Classifier of the demo's checkpoint at 64 x 64 pixels."""
    return Classifier(
        support.CHECKPOINT, **{"n_threads": 2, "options": {"image_size": 64}, "capacity": 8, "device": "cpu", **changes}
    )


class ClassifierTest(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2, image_size=64)

    def test_columns(self):
        found = raw_images(19)
        classifier = small(
            outputs=["class", "label", "score", "top", "logits", "pooled", "tokens", "mask"],
            top_k=3,
            policy=Policy("l2", keep=0.5),
        )
        ids = np.arange(100, 119)
        out = classifier({"id": ids, "image": column(found), "path": column(list("abcdefghijklmnopqrs"))})
        wanted = self.model.classify(found, Policy("l2", keep=0.5), pooled=True)
        self.assertEqual(
            list(out),
            [
                "id",
                "path",
                "class",
                "label",
                "score",
                "top_classes",
                "top_scores",
                "logits",
                "pooled",
                "tokens",
                "mask",
                "error",
            ],
        )
        self.assertIs(out["id"], ids)
        self.assertEqual(out["error"].tolist(), [""] * 19)
        self.assertTrue((out["logits"] == wanted.logits).all())
        self.assertTrue((out["pooled"] == wanted.pooled).all())
        self.assertTrue((out["class"] == wanted.logits.argmax(1)).all())
        self.assertEqual(out["label"].tolist(), [self.model.class_names[i] for i in wanted.logits.argmax(1)])
        chances = np.exp(wanted.logits) / np.exp(wanted.logits).sum(1, keepdims=True)
        self.assertLess(np.abs(out["score"] - chances.max(1)).max(), 1e-6)
        self.assertTrue((out["top_classes"] == np.argsort(-wanted.logits, axis=1, kind="stable")[:, :3]).all())
        self.assertLess(np.abs(out["top_scores"] - np.sort(chances)[:, :-4:-1]).max(), 1e-6)
        self.assertEqual(out["tokens"].tolist(), [len(kept) for kept in wanted.kept[-1]])
        self.assertEqual(
            [np.flatnonzero(line).tolist() for line in out["mask"]], [sorted(kept.tolist()) for kept in wanted.kept[-1]]
        )
        types = {name: str(values.dtype) for name, values in out.items()}
        self.assertEqual(
            types,
            {
                "id": "int64",
                "path": "object",
                "class": "int64",
                "label": "object",
                "score": "float32",
                "top_classes": "int64",
                "top_scores": "float32",
                "logits": "float32",
                "pooled": "float32",
                "tokens": "int32",
                "mask": "uint8",
                "error": "object",
            },
        )
        dense = small(outputs=["tokens", "mask"])({"image": column(found[:1])})
        self.assertEqual(
            (dense["tokens"].tolist(), dense["mask"].sum()), ([self.model.info.tokens], self.model.info.tokens)
        )

    def test_batches_of_every_size_share_the_sessions(self):
        classifier, found = small(outputs=["logits"]), raw_images(21)
        wanted = self.model.classify(found).logits
        self.assertTrue((classifier({"image": column(found)})["logits"] == wanted).all())
        before = [session.handle.pointer.value for session in classifier.model._sessions]
        for n in (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 21, 0):
            out = classifier({"image": column(found[:n])})
            self.assertEqual(
                (out["logits"].shape, out["logits"].dtype, out["error"].shape), ((n, 10), np.float32, (n,))
            )
            self.assertTrue((out["logits"] == wanted[:n]).all(), n)
        self.assertEqual([session.handle.pointer.value for session in classifier.model._sessions], before)
        self.assertEqual([session.capacity for session in classifier.model._sessions], [8])

    def test_an_empty_block(self):
        out = small(outputs=["class", "top"], top_k=2)({"id": np.array([]), "image": np.array([])})
        self.assertEqual(
            {name: values.shape for name, values in out.items()},
            {"id": (0,), "class": (0,), "top_classes": (0, 2), "top_scores": (0, 2), "error": (0,)},
        )

    def test_one_array(self):
        stack = np.stack([raw_images(1, seed)[0] for seed in range(5)])
        out = small(outputs=["logits"])({"image": stack})
        self.assertTrue((out["logits"] == self.model.classify(stack).logits).all())

    @needs_pillow
    def test_encoded_images_and_files(self):
        found = raw_images(6)
        data = [encoded(raw_image, kind) for raw_image, kind in zip(found, ["PNG", "JPEG"] * 3)]
        whole = [np.asarray(Image.open(io.BytesIO(one))) for one in data]
        wanted = self.model.classify(whole).logits
        classifier = small(outputs=["logits"], column="bytes")
        for values in (
            column(data),
            np.array(data),
            data,
            column([bytearray(data[0]), *data[1:5], memoryview(data[5])]),
        ):
            self.assertTrue((classifier({"bytes": values})["logits"] == wanted).all())
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / f"{i}.jpg" for i in range(6)]
            for path, one in zip(paths, data):
                path.write_bytes(one)
            self.assertTrue((classifier({"bytes": np.array(list(map(str, paths)))})["logits"] == wanted).all())
            os.remove(paths[2])
            out = classifier({"bytes": column([str(paths[0]), str(paths[2])])})
            self.assertRegex(out["error"][1], r"2\.jpg: .*No such file")

    @needs_pillow
    def test_broken_images_do_not_affect_others(self):
        found, classifier = (
            raw_images(10),
            small(outputs=["class", "label", "score", "top", "logits", "tokens", "mask"], top_k=2),
        )
        wanted = self.model.classify(found).logits
        jpeg = encoded(found[0])
        broken = {
            1: (jpeg[: len(jpeg) // 2], "truncated"),
            2: (b"no image", "^cannot identify the format of the image$"),
            3: (None, "null"),
            4: (7, "is a int"),
            5: (np.zeros((5, 6), np.uint8), r"is uint8 \[5, 6\]"),
            6: (found[6].astype(np.float32), "is float32"),
            7: (b"", "cannot identify"),
            8: (np.zeros((0, 9, 3), np.uint8), r"is uint8 \[0, 9, 3\]"),
        }
        out = classifier(
            {"id": np.arange(10), "image": column([broken[i][0] if i in broken else found[i] for i in range(10)])}
        )
        for i in range(10):
            if i in broken:
                self.assertRegex(out["error"][i], broken[i][1])
                self.assertEqual(
                    (
                        out["class"][i],
                        out["label"][i],
                        out["tokens"][i],
                        out["mask"][i].sum(),
                        out["top_classes"][i].tolist(),
                    ),
                    (-1, "", 0, 0, [-1, -1]),
                )
                self.assertTrue(np.isnan([out["score"][i], *out["logits"][i], *out["top_scores"][i]]).all())
            else:
                self.assertEqual(out["error"][i], "")
                self.assertTrue((out["logits"][i] == wanted[i]).all())
        out = classifier({"image": column([b"x", b"y"])})
        self.assertEqual((out["logits"].shape, out["class"].tolist()), ((2, 10), [-1, -1]))

    @needs_pillow
    def test_decoding_stage(self):
        found = raw_images(3)
        data = [encoded(found[0], "PNG"), b"broken", encoded(found[2], "PNG")]
        batch = decode({"id": np.arange(3), "bytes": column(data)}, "bytes")
        self.assertEqual([one.shape for one in batch["bytes"]], [(48, 64, 3), (0, 0, 3), (33, 90, 3)])
        self.assertEqual((list(batch), batch["error"][0]), (["id", "bytes", "error"], ""))
        out = small(outputs=["logits"], column="bytes")(batch)
        self.assertEqual(out["error"].tolist(), ["", "cannot identify the format of the image", ""])
        self.assertTrue((out["logits"][[0, 2]] == self.model.classify([found[0], found[2]]).logits).all())
        self.assertEqual(len(decode({"image": np.array([])})["image"]), 0)  # an empty block
        self.fails(Status.INVALID_ARGUMENT, "has no column 'image'", decode, {"bytes": column(data)})

    def test_without_pillow(self):
        with mock.patch.dict("sys.modules", {"PIL": None}):
            self.fails(Status.UNAVAILABLE, "needs Pillow", small(), {"image": column([b"x"])})
            self.fails(Status.UNAVAILABLE, "needs Pillow", decode, {"image": column([b"x"])})

    def test_import_loads_no_dependencies(self):
        code = "import sys, raggedvit.ray; print([name for name in ('ray', 'PIL', 'torch') if name in sys.modules])"
        environment = {**os.environ, "PYTHONPATH": str(support.ROOT / "python")}
        self.assertEqual(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
            ).stdout,
            "[]\n",
        )

    def test_copies_open_their_own_model(self):
        found, classifier = raw_images(3), small(outputs=["logits"])
        wanted = classifier({"image": column(found)})["logits"]
        data = pickle.dumps(classifier)
        self.assertLess(len(data), 2000)
        copy = pickle.loads(data)
        self.assertIsNone(copy._opened)
        self.assertTrue((copy({"image": column(found)})["logits"] == wanted).all())
        self.assertIsNot(copy.model, classifier.model)
        self.assertIs(classifier.model, classifier.model)

    def test_a_forked_child_opens_its_own_model(self):
        # threads copy this batch, and the child does not have them
        large = np.random.default_rng(1).integers(0, 256, (1500, 1500, 3), np.uint8)
        found, classifier = [*raw_images(3), large], small(outputs=["logits"])
        wanted, model = classifier({"image": column(found)})["logits"], classifier.model
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                same = (
                    classifier({"image": column(found)})["logits"] == wanted
                ).all() and classifier.model is not model
                os.write(writer, b"same" if same else b"other")
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            self.assertEqual(file.read(), b"same")
        os.waitpid(child, 0)
        self.assertTrue((classifier({"image": column(found)})["logits"] == wanted).all())

    def test_threads(self):
        found, classifier = raw_images(12), small(outputs=["logits"])
        wanted = self.model.classify(found).logits

        def work():
            for n in (12, 5, 1):
                self.assertTrue((classifier({"image": column(found[:n])})["logits"] == wanted[:n]).all())

        support.in_threads(work, work, work)

    def test_rows(self):
        found = raw_images(3)
        one, bad, three = small(outputs=["class", "label", "top"], top_k=2).rows(
            [found[0], b"", found[2]] if Image else [found[0], 7, found[2]]
        )
        self.assertEqual((list(bad), list(one)), (["error"], ["class", "label", "top_classes", "top_scores"]))
        self.assertEqual((type(one["class"]), type(one["label"]), one["class"]), (int, str, one["top_classes"][0]))
        self.assertEqual(one["label"], self.model.class_names[one["class"]])
        self.assertEqual(small().rows([]), [])

    def test_errors_of_the_device_are_raised(self):
        classifier = small()
        lost = RaggedVitError(Status.DEVICE_LOST, "the device is lost")
        with mock.patch.object(classifier.model, "classify", side_effect=lost):
            self.fails(Status.DEVICE_LOST, "the device is lost", classifier, {"image": column(raw_images(3))})

    def test_results_that_are_not_finite(self):
        found, classifier = raw_images(3), small()
        result = self.model.classify(found)
        result.errors[1] = RaggedVitError(Status.NOT_FINITE, "image 1: its logits are not finite")
        with mock.patch.object(classifier.model, "classify", return_value=result):
            out = classifier({"image": column(found)})
        self.assertEqual(out["error"][1], "its logits are not finite")
        self.assertEqual((out["class"][1], out["error"][0], out["class"][2]), (-1, "", result.logits[2].argmax()))

    def test_recipes_and_labels(self):
        tile = support.png_rows(support.DATA / "cifar10_test_1000.png", 32)[:, :32]
        changes = {"fit": "squash", "resize": (64, 64)}
        labels = [f"class {i}" for i in range(10)]
        classifier = small(outputs=["logits", "label"], recipe=changes, labels=labels)
        out = classifier({"image": column([tile])})
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2, image_size=64)
        model.recipe = classifier.model.recipe
        self.assertEqual(model.recipe.fit, "squash")
        wanted = model.classify([tile]).logits
        self.assertTrue((out["logits"] == wanted).all() and (wanted != self.model.classify([tile]).logits).any())
        self.assertEqual(out["label"][0], f"class {wanted.argmax()}")
        whole = small(outputs=["logits"], recipe=model.recipe)({"image": column([tile])})
        self.assertTrue((whole["logits"] == wanted).all())

    def test_assigned_resources(self):
        """With a mock of Ray, n_threads and the device are those of the worker."""
        for resources, cpus, gpus in (({"CPU": 3.0}, 3, 0), ({"CPU": 0.5}, 1, 0), ({"GPU": 1.0}, 1, 1.0), ({}, 1, 0)):
            worker = mock.Mock()
            worker.get_runtime_context.return_value.get_assigned_resources.return_value = resources
            with mock.patch.dict("sys.modules", {"ray": worker}):
                self.assertEqual(raggedvit.ray._assigned(), (cpus, gpus))
                with mock.patch.object(raggedvit.ray, "Model", side_effect=ValueError) as opened:
                    self.assertRaises(ValueError, Classifier("model").__call__, {"image": column([])})
            self.assertEqual(
                (opened.call_args.args[1], opened.call_args.kwargs["n_threads"]), ("cuda:0" if gpus else "cpu", cpus)
            )
        with mock.patch.dict("sys.modules", {"ray": mock.Mock(**{"get_runtime_context.side_effect": AssertionError})}):
            self.assertEqual(raggedvit.ray._assigned(), (None, None))

    def test_embeddings(self):
        with tempfile.TemporaryDirectory() as folder:
            path, found = siglip(folder), raw_images(3)
            out = Classifier(path, outputs=["embedding"], device="cpu", n_threads=1)(
                {"image": column([found[0], 7, found[2]])}
            )
            wanted = (
                raggedvit.Model(path, device="cpu", n_threads=1)
                .classify([found[0], found[2]], projected=True, normalized=True)
                .projected
            )
            self.assertEqual(out["embedding"].shape, (3, WIDTH))
            self.assertTrue((out["embedding"][[0, 2]] == wanted).all())
            self.assertTrue(np.isnan(out["embedding"][1]).all())
            self.assertLess(np.abs(np.linalg.norm(wanted, axis=1) - 1).max(), 1e-5)

    def test_a_model_without_a_head(self):
        with tempfile.TemporaryDirectory() as folder:
            path, batch = tiny(folder, 0), {"image": column(raw_images(3))}
            self.assertEqual(
                Classifier(path, outputs=["pooled"], device="cpu", n_threads=1)(batch)["pooled"].shape, (3, WIDTH)
            )
            self.fails(
                Status.UNSUPPORTED,
                "outputs has 'class', but the model has no head; it has 'pooled'",
                Classifier(path, device="cpu"),
                batch,
            )

    def test_images_that_cannot_be_run_do_not_affect_others(self):
        """Tests errors that occur only in the run: images that are too thin to be resized."""
        found = raw_images(7)
        for i in (2, 5):
            found[i] = np.zeros((1, 4000, 3), np.uint8)
        classifier = small(outputs=["logits"], recipe={"fit": "border", "resize": (64, 64)})
        out = classifier({"image": column(found)})
        self.assertEqual([i for i in range(7) if out["error"][i]], [2, 5])
        self.assertRegex(out["error"][2], "^4000 x 1 pixels are too thin")
        good = [i for i in range(7) if i not in (2, 5)]
        self.assertTrue((out["logits"][good] == classifier.model.classify([found[i] for i in good]).logits).all())

    def test_invalid_arguments(self):
        for words, changes in (
            ("column is 3; expected a string", {"column": 3}),
            ("outputs.0. is 'clas'; expected one of class, label", {"outputs": ["clas"]}),
            ("outputs is 'class'; expected a sequence", {"outputs": "class"}),
            ("top_k is 0", {"top_k": 0}),
            ("capacity is 0", {"capacity": 0}),
            ("device is 'gpu'", {"device": "gpu"}),
            ("dtype is 'f64'", {"dtype": "f64"}),
            ("n_threads is -1", {"n_threads": -1}),
            ("decode_threads is 0", {"decode_threads": 0}),
            ("device is 'cuda:-2'", {"device": "cuda:-2"}),
            ("policy is 3; expected a name", {"policy": 3}),
            ("policy is 'mask'", {"policy": "mask"}),
            ("recipe has 'fill_in'", {"recipe": {"fill_in": 3}}),
            ("labels.1. is 3", {"labels": ["a", 3]}),
            ("options has 'n_threads'", {"options": {"n_threads": 3}}),
            ("prefix is None", {"prefix": None}),
            ("path is 3", {"path": 3}),
        ):
            with self.subTest(words):
                self.fails(Status.INVALID_ARGUMENT, words, Classifier, **{"path": "model.safetensors", **changes})

    def test_errors_of_the_first_call(self):
        batch = {"image": column(raw_images(1))}
        for status, words, changes in (
            (Status.INVALID_ARGUMENT, "top_k is 11, but the model has 10 classes", {"outputs": ["top"], "top_k": 11}),
            (Status.INVALID_ARGUMENT, "labels has 2 names, but the model has 10 classes", {"labels": ["a", "b"]}),
            (Status.UNSUPPORTED, "project", {"outputs": ["embedding"]}),
            (Status.INVALID_ARGUMENT, "recipe makes images of", {"recipe": {"height": 32}}),
            (Status.INVALID_ARGUMENT, "polic", {"policy": "l3"}),
            (Status.BAD_FILE, "none.safetensors", {"path": "none.safetensors"}),
        ):
            with self.subTest(words):
                self.fails(
                    status, words, small(**changes) if "path" not in changes else Classifier(changes["path"]), batch
                )

    def test_invalid_batches(self):
        classifier, found = small(), column(raw_images(2))
        for words, batch in (
            ("has no column 'image', but 'id', 'img'; the argument column names it", {"id": found, "img": found}),
            ("has no column 'image', but none at all", {}),
            ("the batch is a list; expected a dict of columns", [found]),
            (
                r"column 'image' is float32 \[2, 9, 9, 3\]; expected encoded",
                {"image": np.zeros((2, 9, 9, 3), np.float32)},
            ),
            (r"column 'image' is uint8 \[2, 3, 9, 9\]", {"image": np.zeros((2, 3, 9, 9), np.uint8)}),
            (r"column 'image' is uint8 \[2, 9, 9\]", {"image": np.zeros((2, 9, 9), np.uint8)}),
            ("column 'image' is a int", {"image": 3}),
            (
                "has a column 'label', which the results would overwrite; give a prefix",
                {"image": found, "label": found},
            ),
            ("has a column 'error' that is not decode's", {"image": found, "error": np.zeros(2)}),
            ("has a column 'error' that is not decode's", {"image": found, "error": column(["", "", ""])}),
        ):
            with self.subTest(words):
                self.fails(Status.INVALID_ARGUMENT, words, classifier, batch)
        out = small(prefix="vit_")({"image": found, "label": found, "error": np.zeros(2)})
        self.assertEqual(list(out), ["label", "error", "vit_class", "vit_label", "vit_score", "vit_error"])


@unittest.skipIf(why_not_plain(), why_not_plain())
class OnGpuTest(unittest.TestCase):
    def test_a_worker_with_a_gpu(self):
        """Tests with a mock of Ray that assigns a GPU."""
        found = raw_images(11)
        found[4] = np.zeros((3, 3), np.uint8)
        good = [i for i in range(11) if i != 4]
        worker = mock.Mock()
        worker.get_runtime_context.return_value.get_assigned_resources.return_value = {"GPU": 0.5, "CPU": 2.0}
        classifier = small(
            device=None,
            n_threads=None,
            capacity=4,
            policy=Policy("l2", keep=0.5),
            outputs=["logits", "tokens"],
            options={"image_size": 32},
        )
        with mock.patch.dict("sys.modules", {"ray": worker}):
            out = classifier({"image": column(found)})
        device = classifier.model.device
        self.assertEqual((device.backend, device.index), ("cuda", 0))
        self.assertEqual([i for i in range(11) if out["error"][i]], [4])
        wanted = raggedvit.Model(support.CHECKPOINT, device="cpu", image_size=32).classify(
            [found[i] for i in good], Policy("l2", keep=0.5)
        )
        self.assertLess(np.abs(out["logits"][good] - wanted.logits).max(), 1e-3)
        self.assertEqual(out["tokens"][good].tolist(), [len(kept) for kept in wanted.kept[-1]])
        before = [session.handle.pointer.value for session in classifier.model._sessions]
        for n in (1, 2, 3, 5, 9):
            self.assertTrue(
                (
                    classifier({"image": column(found[:n])})["logits"][[i for i in good if i < n]]
                    == out["logits"][[i for i in good if i < n]]
                ).all()
            )
        self.assertEqual([session.handle.pointer.value for session in classifier.model._sessions], before)


WIDTH, HIDDEN = 64, 128


def written(folder, shapes, linear, norms, config, processor):
    """Writes a checkpoint of random weights."""
    shapes, random, header, data, at = dict(shapes), np.random.default_rng(1), {}, [], 0
    for name, out, wide in linear:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [out, wide], [out]
    for norm in norms:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = [WIDTH]
    for name, shape in shapes.items():
        is_scale = any(name == f"{norm}.weight" for norm in norms)
        data.append((random.standard_normal(shape) / 8 + is_scale).astype(np.float32).tobytes())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text, path = json.dumps(header).encode(), pathlib.Path(folder) / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))
    path.with_name("config.json").write_text(json.dumps(config))
    path.with_name("preprocessor_config.json").write_text(json.dumps(processor))
    return path


def siglip(folder):
    """Writes a tiny SigLIP vision encoder; attention pooling gives its embedding."""
    base = "vision_model."
    shapes = {
        "embeddings.position_embedding.weight": [16, WIDTH],
        "embeddings.patch_embedding.weight": [WIDTH, 3, 16, 16],
        "embeddings.patch_embedding.bias": [WIDTH],
        "head.probe": [1, 1, WIDTH],
        "head.attention.in_proj_weight": [3 * WIDTH, WIDTH],
        "head.attention.in_proj_bias": [3 * WIDTH],
    }
    linear = [("head.attention.out_proj", WIDTH, WIDTH)]
    for mlp in ("encoder.layers.0.mlp", "head.mlp"):
        linear += [(f"{mlp}.fc1", HIDDEN, WIDTH), (f"{mlp}.fc2", WIDTH, HIDDEN)]
    linear += [
        (f"encoder.layers.0.self_attn.{name}", WIDTH, WIDTH) for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    ]
    norms = ["encoder.layers.0.layer_norm1", "encoder.layers.0.layer_norm2", "post_layernorm", "head.layernorm"]
    return written(
        folder,
        {base + name: shape for name, shape in shapes.items()},
        [(base + name, *sizes) for name, *sizes in linear],
        [base + norm for norm in norms],
        {
            "model_type": "siglip_vision_model",
            "hidden_size": WIDTH,
            "intermediate_size": HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "image_size": 64,
            "patch_size": 16,
        },
        {
            "image_processor_type": "SiglipImageProcessor",
            "size": {"height": 64, "width": 64},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "resample": 3,
        },
    )


def tiny(folder, classes=10):
    """Writes a tiny ViT with timm's names; without a head if classes is 0."""
    shapes = {
        "cls_token": [1, 1, WIDTH],
        "pos_embed": [1, 17, WIDTH],
        "patch_embed.proj.weight": [WIDTH, 3, 16, 16],
        "patch_embed.proj.bias": [WIDTH],
    }
    linear = [
        ("blocks.0.attn.qkv", 3 * WIDTH, WIDTH),
        ("blocks.0.attn.proj", WIDTH, WIDTH),
        ("blocks.0.mlp.fc1", HIDDEN, WIDTH),
        ("blocks.0.mlp.fc2", WIDTH, HIDDEN),
    ] + [("head", classes, WIDTH)] * (classes > 0)
    return written(
        folder,
        shapes,
        linear,
        ["blocks.0.norm1", "blocks.0.norm2", "norm"],
        {
            "architecture": "vit",
            "model_args": {"num_heads": 1},
            "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3},
        },
        {},
    )


if __name__ == "__main__":
    unittest.main()
