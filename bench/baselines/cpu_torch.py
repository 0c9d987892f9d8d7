"""PyTorch on the CPU: timm's model, eager or compiled with frozen weights, and in bfloat16 by converted weights or by autocast."""

PARTS = {}


def baselines(point):
    compiled = point.options.compile
    return {"pytorch f32": ["eager"] + ["compiled"] * compiled,
            "pytorch bf16": ["eager bfloat16", "eager autocast"] + ["compiled bfloat16", "compiled autocast"] * compiled}


def more(point, name, best):
    return []


def start(point, name, setting):
    import torch

    from . import cpu_models

    torch.set_num_threads(point.cores)
    model = cpu_models.timm_model(point.shape, point.folder)
    images, dtype = torch.from_numpy(point.images), torch.bfloat16 if "bfloat16" in setting else torch.float32
    model, autocast = model.to(dtype), "autocast" in setting
    if "compiled" in setting:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        model = torch.compile(model, dynamic=False)

    def call():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return [model(images.to(dtype)).float().numpy()]

    return call


def versions():
    import timm
    import torch

    return {"torch": torch.__version__, "timm": timm.__version__}
