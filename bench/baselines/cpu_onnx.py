"""ONNX Runtime on the CPU: timm's model as exported, the same after ONNX Runtime's optimizer for transformers, and its dynamic and static
quantization."""


def prepare_export(shape, folder, images):
    import torch

    from . import cpu_models

    model = cpu_models.timm_model(shape, folder, fused=False)
    with torch.inference_mode():
        torch.onnx.export(model, (torch.from_numpy(images[:2]),), str(folder / "model.onnx"), dynamo=False, opset_version=17,
                          input_names=["images"], output_names=["logits"], dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}})


def prepare_fused(shape, folder, images):
    from onnxruntime.transformers import optimizer

    optimizer.optimize_model(str(folder / "model.onnx"), model_type="vit", num_heads=shape.heads, hidden_size=shape.dim).save_model_to_file(
        str(folder / "fused.onnx"))


def prepare_dynamic(shape, folder, images):
    """Weight scales per channel, activation scales per tensor and run."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for source in [name for name in ("model", "fused") if (folder / f"{name}.onnx").exists()]:
        # The file lacks the types of some outputs of fused operators.
        quantize_dynamic(folder / f"{source}.onnx", folder / f"dynamic_{source}.onnx", weight_type=QuantType.QInt8, per_channel=True,
                         extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


def prepare_static(shape, folder, images):
    """Weight scales per channel, activation scales per tensor, from the minimum and maximum over four images."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Calibration(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"images": image[None]} for image in images[:4]]

        def get_next(self):
            return self.left.pop() if self.left else None

    quant_pre_process(str(folder / "model.onnx"), str(folder / "shaped.onnx"), skip_symbolic_shape=True)
    quantization.quantize_static(str(folder / "shaped.onnx"), str(folder / "static.onnx"), Calibration(), per_channel=True,
                                 activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
                                 op_types_to_quantize=["MatMul", "Gemm", "Conv"])


PARTS = {"onnx": prepare_export, "onnx fused": prepare_fused, "onnx dynamic int8": prepare_dynamic, "onnx static int8": prepare_static}


def baselines(point):
    """name -> the files to try."""
    return {"onnxruntime f32": ["model", "fused"], "onnxruntime int8": ["dynamic_model", "dynamic_fused", "static"]}


def more(point, name, best):
    return []


def start(point, name, setting):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = point.cores, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # so that its threads do not keep the next baseline's cores busy
    session = onnxruntime.InferenceSession(str(point.folder / f"{setting}.onnx"), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, point.images)
    binding.bind_output(session.get_outputs()[0].name)

    def call():
        session.run_with_iobinding(binding)
        return [binding.get_outputs()[0].numpy()]

    return call


def versions():
    import onnx
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}
