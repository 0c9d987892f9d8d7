"""Runs the vision encoders of Qwen2.5-VL and Qwen3-VL with transformers. Part of make_dumps.py."""
import torch
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.vision_utils import get_vision_window_index


def grid_thw(grids):
    return torch.tensor([(1, *grid) for grid in grids])


def run(model, patches, grids):
    """Returns the merged rows, the rows of the deepstack mergers, and the rows of the last block in the order of `patches`."""
    out = model(patches, grid_thw=grid_thw(grids))
    rows, config = out.last_hidden_state, model.config
    group_size = config.spatial_merge_size**2
    if hasattr(config, "window_size"):
        order, _ = get_vision_window_index(grid_thw(grids), config.spatial_merge_size, config.window_size, config.patch_size)
        rows = rows.reshape(-1, group_size, rows.shape[-1])[torch.argsort(order)].reshape(rows.shape)
    return out.pooler_output, list(getattr(out, "deepstack_features", None) or []), rows


def prepare(images, patch_size, mean, std, least, most):
    """Preprocesses 8-bit images [height, width, 3] with transformers' processor. Returns the rows, the grids, and the processor's config
    file."""
    processor = Qwen2VLImageProcessor(patch_size=patch_size, image_mean=mean, image_std=std, size={"shortest_edge": least, "longest_edge": most})
    made = processor(images=[torch.from_numpy(image).permute(2, 0, 1) for image in images], return_tensors="pt")
    config = {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": patch_size, "merge_size": 2, "temporal_patch_size": 2,
              "size": {"shortest_edge": least, "longest_edge": most}, "image_mean": mean, "image_std": std}
    return made["pixel_values"], [tuple(grid[1:]) for grid in made["image_grid_thw"].tolist()], config
