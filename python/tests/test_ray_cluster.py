"""Tests raggedvit.ray under Ray: two workers give the same results as one process, examples/ray_folder.py neither loses
nor repeats images when workers and jobs are killed, and a deployment of Ray Serve answers. Skipped without Ray;
.ci/run has it in a venv."""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.request
import warnings

import numpy as np

import support
import raggedvit
import raggedvit.ray
from test_ray import encoded, raw_images

try:
    import pyarrow
    import pyarrow.parquet as parquet
    import ray
    import ray.data
except ImportError as error:
    raise unittest.SkipTest(f"Ray is not here: {error}")

SETTINGS = {
    "path": str(support.CHECKPOINT),
    "outputs": ["class", "score", "logits"],
    "options": {"image_size": 64},
    "capacity": 8,
}
EXAMPLE = support.ROOT / "examples" / "ray_folder.py"
N_BROKEN = 3


class WithProcess(raggedvit.ray.Classifier):
    """Also returns the worker and its settings. Workers wait until both have started."""

    def __init__(self, meeting, settings):
        super().__init__(**settings)
        (meeting / str(os.getpid())).touch()
        self.meeting = meeting

    def __call__(self, batch):
        end = time.monotonic() + 60
        while len(os.listdir(self.meeting)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        out = super().__call__(batch)
        n = len(out["id"])
        return {
            **out,
            "worker": np.full(n, os.getpid()),
            "backend": np.array([self.model.device.backend] * n),
            "threads": np.full(n, self.model._device_desc.n_threads),
        }


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Two CPUs, whatever the machine has. Workers find the package in the same way as this process.
        cls.environment = dict(os.environ)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(support.ROOT / "python"), str(pathlib.Path(__file__).parent)])
        os.environ.update(RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", RAY_USAGE_STATS_ENABLED="0")
        cls.addClassCleanup(cls.restore)
        context = ray.init(
            num_cpus=2,
            num_gpus=0,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            object_store_memory=256 << 20,
        )
        cls.addClassCleanup(ray.shutdown)
        cls.address = context.address_info["gcs_address"]
        ray.data.DataContext.get_current().enable_progress_bars = False
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.raw_images = raw_images(142)
        (cls.folder / "photos" / "more").mkdir(parents=True)
        for i, raw_image in enumerate(cls.raw_images):
            (cls.folder / "photos" / ("more" if i % 2 else "") / f"{i:03d}.png").write_bytes(encoded(raw_image, "PNG"))
        for i in range(N_BROKEN):
            (cls.folder / "photos" / f"broken{i}.jpg").write_bytes(b"\xff\xd8\xff broken")
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=1, image_size=64)
        cls.logits = model.classify(cls.raw_images).logits

    @classmethod
    def restore(cls):
        os.environ.clear()
        os.environ.update(cls.environment)

    def test_two_workers_equal_one_process(self):
        rows = [{"id": i, "image": raw_image} for i, raw_image in enumerate(self.raw_images)]
        rows[17]["image"] = np.zeros((4, 4, 1), np.uint8)
        data = ray.data.from_items(rows, override_num_blocks=6)
        (self.folder / "meeting").mkdir()
        out = data.map_batches(
            WithProcess,
            fn_constructor_args=(self.folder / "meeting", SETTINGS),
            batch_size=10,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=2, max_tasks_in_flight_per_actor=1),
        )
        found = sorted(out.take_all(), key=lambda row: row["id"])
        self.assertEqual([row["id"] for row in found], list(range(len(rows))))
        self.assertRegex(found[17]["error"], r"uint8 \[4, 4, 1\]")
        for i, row in enumerate(found):
            if i != 17:
                self.assertEqual((row["error"], row["class"]), ("", self.logits[i].argmax()))
                self.assertTrue((row["logits"] == self.logits[i]).all())
        self.assertEqual({(row["backend"], row["threads"]) for row in found}, {("cpu", 1)})
        self.assertEqual(len({row["worker"] for row in found}), 2)

    def test_separate_decoding_stage(self):
        data = ray.data.read_binary_files(str(self.folder / "photos"), include_paths=True, override_num_blocks=5)
        decoded = data.map_batches(raggedvit.ray.decode, fn_kwargs={"column": "bytes"}, batch_size=7)
        out = decoded.map_batches(
            raggedvit.ray.Classifier,
            fn_constructor_kwargs={**SETTINGS, "column": "bytes"},
            batch_size=16,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=1),
        )
        out.write_parquet(str(self.folder / "decoded"))
        # the files agree on the types, though few have an error
        table = parquet.read_table(self.folder / "decoded").to_pylist()
        self.assertEqual(len(table), len(self.raw_images) + N_BROKEN)
        for row in table:
            name = pathlib.Path(row["path"]).stem
            if name.startswith("broken"):
                self.assertEqual((row["error"], row["class"]), ("cannot identify the format of the image", -1))
            else:
                self.assertEqual((row["error"], row["class"]), ("", self.logits[int(name)].argmax()))

    @contextlib.contextmanager
    def job(self, out, *options, source="photos"):
        """Runs the example on this cluster."""
        command = [
            sys.executable,
            "-B",
            str(EXAMPLE),
            str(self.folder / source),
            str(out),
            "--image-size",
            "64",
            "--shard",
            "8",
            "--actors",
            "2",
            "--report",
            str(out) + ".json",
            *options,
        ]
        environment = {**os.environ, "RAY_ADDRESS": self.address}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            killer = threading.Timer(90, process.kill)
            killer.start()
            try:
                yield process
            finally:
                killer.cancel()
                process.kill()

    def rows(self, out):
        found = {}
        for path in sorted(out.glob("*.parquet")):
            for row in parquet.read_table(path).to_pylist():
                self.assertNotIn(row["path"], found)
                found[row["path"]] = row
        return found

    def check(self, out):
        found = self.rows(out)
        self.assertEqual(
            set(found),
            {str(path.relative_to(self.folder / "photos")) for path in (self.folder / "photos").rglob("*.*g")},
        )
        self.assertEqual(len(found), len(self.raw_images) + N_BROKEN)
        for name, row in found.items():
            if "broken" in name:
                self.assertRegex(row["error"], "cannot identify")
            else:
                self.assertEqual((row["error"], row["class"]), ("", self.logits[int(pathlib.Path(name).stem)].argmax()))
        self.assertEqual([path.name for path in out.iterdir() if path.name.startswith(".")], [])

    def test_a_parquet_file_of_images(self):
        names = [str(path.relative_to(self.folder / "photos")) for path in (self.folder / "photos").rglob("*.*g")]
        columns = {"path": names, "bytes": [(self.folder / "photos" / name).read_bytes() for name in names]}
        parquet.write_table(pyarrow.table(columns), self.folder / "photos.parquet", row_group_size=16)
        with self.job(self.folder / "of_parquet", source="photos.parquet") as process:
            text, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.check(self.folder / "of_parquet")
        parquet.write_table(
            pyarrow.table({name: values + values[:1] for name, values in columns.items()}),
            self.folder / "twice.parquet",
        )
        with self.job(self.folder / "of_twice", source="twice.parquet") as process:
            text, errors = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors, "twice.parquet has a path twice")

    def test_killed_workers_and_jobs_neither_lose_nor_repeat_images(self):
        out, workers = self.folder / "labels", []
        with self.job(out) as process:
            for line in process.stdout:  # kills the first worker that finishes a shard, and later the job
                if line.startswith("shard"):
                    workers.append(int(line.split()[-1]))
                    if len(workers) == 1:
                        os.kill(workers[0], signal.SIGKILL)
                    elif len(workers) == 9:
                        break
            else:
                self.fail(f"the job ended early: {process.stderr.read()}")
        self.assertGreater(len(set(workers)), 1)
        some = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
        self.assertTrue(9 <= len(some) < 19, len(some))
        with self.job(out) as process:
            text, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.check(out)
        report = json.loads((self.folder / "labels.json").read_text())
        self.assertEqual(
            (report["rows"], report["duplicates"], report["missing"], report["failed"], report["shards"]),
            (145, 0, 0, N_BROKEN, 19),
        )
        self.assertLessEqual(report["shards_run"], 19 - 9)
        # If all shards are done, nothing runs and no file is written.
        with self.job(out) as process:
            self.assertRegex(process.communicate()[0], "19 of them done\n")
        self.assertEqual(process.returncode, 0)
        self.assertTrue(all((out / name).stat().st_mtime_ns == time for name, time in some.items()))
        with self.job(out, "--policy", "l2") as process:
            self.assertRegex(process.communicate()[1], "was begun with other images or settings")
        self.assertEqual(process.returncode, 1)

    def test_a_worker_killed_in_one_job(self):
        out, workers = self.folder / "once", []
        with self.job(out) as process:
            for line in process.stdout:
                if line.startswith("shard") and int(line.split()[-1]) not in workers:
                    workers.append(int(line.split()[-1]))
                    if len(workers) < 3:
                        os.kill(workers[-1], signal.SIGKILL)
            self.assertEqual(process.wait(), 0, process.stderr.read())
        self.assertGreaterEqual(len(workers), 3)
        self.check(out)

    def test_a_shard_that_kills_its_workers_ends_the_job(self):
        spec = importlib.util.spec_from_file_location("ray_folder", EXAMPLE)
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        out = self.folder / "deadly"
        out.mkdir()
        shards = example.Shards(self.folder / "photos", out, SETTINGS)
        batch = {"shard": np.array([3]), "names": [np.array(["000.png"], object)]}
        with unittest.mock.patch.object(shards, "classify", side_effect=KeyboardInterrupt):
            for _ in range(example.MOST_ATTEMPTS):
                self.assertRaises(KeyboardInterrupt, shards, batch)
        with self.assertRaisesRegex(RuntimeError, "shard 3, 000.png to 000.png, has died 5 times"):
            shards(batch)
        self.assertEqual(list(out.glob("part*")), [])

    def test_serve(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pydantic warns about Ray
            from ray import serve

        @serve.deployment(ray_actor_options={"num_cpus": 1})
        class Images:
            def __init__(self, settings):
                self.classifier = raggedvit.ray.Classifier(**settings)

            @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.01)
            async def answers(self, raw_images):
                return [{**row, "together": len(raw_images)} for row in self.classifier.rows(raw_images)]

            async def __call__(self, request):
                return await self.answers(await request.body())

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        self.addCleanup(serve.shutdown)
        serve.run(Images.bind({**SETTINGS, "outputs": ["class", "label", "top"]}))
        answers = [None] * 24

        def ask(i):
            data = b"broken" if i == 5 else encoded(self.raw_images[i], "PNG")
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}", data), timeout=30) as answer:
                answers[i] = json.load(answer)

        support.in_threads(*[lambda i=i: ask(i) for i in range(24)])
        for i, answer in enumerate(answers):
            if i == 5:
                self.assertEqual(answer["error"], "cannot identify the format of the image")
            else:
                self.assertEqual(answer["class"], int(self.logits[i].argmax()))
                self.assertEqual(answer["top_classes"], np.argsort(-self.logits[i], kind="stable")[:5].tolist())
        self.assertGreater(max(answer["together"] for answer in answers), 1)


if __name__ == "__main__":
    unittest.main()
