"""The vision towers of Qwen2.5-VL and Qwen3-VL: what dump_reference.py asks of transformers beside other towers. Part of it."""
import torch
from transformers.vision_utils import get_vision_window_index


def grid_thw(grids):
    return torch.tensor([(1, *grid) for grid in grids])


def run(model, patches, grids):
    """Merged rows, those of deepstack mergers, and the rows of the last block in the order of the patches that were given."""
    out = model(patches, grid_thw=grid_thw(grids))
    rows, config = out.last_hidden_state, model.config
    unit = config.spatial_merge_size**2
    if hasattr(config, "window_size"):
        order, _ = get_vision_window_index(grid_thw(grids), config.spatial_merge_size, config.window_size, config.patch_size)
        rows = rows.reshape(-1, unit, rows.shape[-1])[torch.argsort(order)].reshape(rows.shape)
    return out.pooler_output, list(getattr(out, "deepstack_features", None) or []), rows
