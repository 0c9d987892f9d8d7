"""OpenVINO on the CPU: its own conversion of timm's model, and NNCF's post-training quantization for transformers."""

import importlib.metadata

# Attention as GEMMs and a softmax, or as one operator. In bf16 the latter was slower at all four measured points (a Xeon with AMX: DeiT-T
# with 8 images and DeiT-B with 1, on 2 and on 16 cores), so only f32 tries both.
GRAPHS = ("explicit", "sdpa")
PROFILED = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "patch_embed", "head", "norm")


def prepare_graphs(shape, folder, images):
    import openvino
    import torch

    from . import cpu_models

    for name in GRAPHS:
        model = cpu_models.timm_model(shape, folder, fused=name == "sdpa")
        graph = openvino.convert_model(model, example_input=torch.from_numpy(images[:2]), input=[(-1, *images.shape[1:])])
        openvino.save_model(graph, folder / f"{name}.xml", compress_to_fp16=False)


def prepare_int8(shape, folder, images):
    """Every GEMM in int8, with weight scales per channel and activation scales per tensor: NNCF's preset for transformers, with
    SmoothQuant. Calibrated with two images, on which the speed does not depend. The quantized graph with GEMMs is the faster one (DeiT-T,
    Xeon with AMX)."""
    import nncf
    import openvino

    graph = openvino.Core().read_model(folder / "explicit.xml")
    quantized = nncf.quantize(graph, nncf.Dataset([image[None] for image in images[:2]]), model_type=nncf.ModelType.TRANSFORMER, subset_size=2)
    openvino.save_model(quantized, folder / "int8.xml", compress_to_fp16=False)


PARTS = {"openvino": prepare_graphs, "openvino int8": prepare_int8}


class Compiled:
    """A batch, as one request or as one per stream."""

    def __init__(self, point, graph, precision, streams, more=None):
        import openvino

        core = openvino.Core()
        model = core.read_model(point.folder / f"{graph}.xml")
        size = point.batch // streams
        model.reshape([size, *point.images.shape[1:]])
        hint = {"PERFORMANCE_HINT": "LATENCY"} if streams == 1 else {"NUM_STREAMS": str(streams)}
        self.compiled = core.compile_model(model, "CPU", hint | {
            "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": point.cores} | (more or {}))
        self.requests = [self.compiled.create_infer_request() for _ in range(streams)]
        self.parts = [openvino.Tensor(point.images[i * size : (i + 1) * size], shared_memory=True) for i in range(streams)]

    def __call__(self):
        if len(self.requests) == 1:
            self.requests[0].infer([self.parts[0]], share_inputs=True, share_outputs=True)
            return [self.requests[0].get_output_tensor(0).data]
        for request, part in zip(self.requests, self.parts):
            request.start_async([part], share_inputs=True)
        for request in self.requests:
            request.wait()
        return [request.get_output_tensor(0).data for request in self.requests]


def baselines(point):
    """name -> the settings to try first. A setting is the graph, the precision of operators that are not int8, and the streams."""
    return {"openvino f32": [f"{graph} f32 1" for graph in GRAPHS], "openvino bf16": ["explicit bf16 1"],
            "openvino int8": ["int8 bf16 1", "int8 f32 1"]}


def more(point, name, best):
    """Settings to try after the first ones, as long as each is faster than the one before."""
    graph, precision, _ = best.split()
    return [f"{graph} {precision} {n}" for n in (2, 4, 8, 16) if n <= point.cores and point.batch % n == 0]


def start(point, name, setting):
    graph, precision, streams = setting.split()
    return Compiled(point, graph, precision, int(streams))


def profile(point, setting, runs=20):
    """OpenVINO's own times: part -> microseconds per batch, summed over the blocks (median of some runs), and the kernels that ran it."""
    graph, precision, _ = setting.split()
    compiled = Compiled(point, graph, precision, 1, {"PERF_COUNT": True})
    samples, kinds = [], {}
    for _ in range(runs):
        compiled()
        found = {}
        for node in compiled.requests[0].get_profiling_info():
            took = 1e6 * node.real_time.total_seconds()
            if took > 0:
                part = next((p for p in PROFILED if p in node.node_name), "attention and other")
                found[part] = found.get(part, 0) + took
                kinds.setdefault(part, {})[node.node_type + " " + node.exec_type] = True
        samples.append(found)
    middle = {part: sorted(s.get(part, 0) for s in samples)[runs // 2] for part in samples[0]}
    return {part: {"us": us, "by": list(kinds[part])} for part, us in middle.items()}


def versions():
    import openvino

    found = {"openvino": openvino.__version__}
    try:
        found["nncf"] = importlib.metadata.version("nncf")  # importing it takes seconds
    except importlib.metadata.PackageNotFoundError:
        pass
    return found
