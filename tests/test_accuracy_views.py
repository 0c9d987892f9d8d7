"""Tests the views of tools/accuracy/views.py and its counts. Exits 77 without numpy and Pillow."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools/accuracy"))
import views as accuracy_views  # noqa: E402  (exits 77 without numpy and Pillow)
import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

views = accuracy_views.views(12)
sheet = np.asarray(Image.open(accuracy_views.SHEET).convert("RGB"))
assert len(views) == 18 and all(view.shape == (12, 32, 32, 3) for view in views)
across = sheet.shape[1] // 32
for tile in range(12):
    y, x = tile // across * 32, tile % across * 32
    assert np.array_equal(views[0][tile], sheet[y : y + 32, x : x + 32])
for view, (y, x) in zip(views, accuracy_views.SHIFTS):
    assert np.array_equal(view[:, 1:-1, 1:-1], views[0][:, 1 + y : 31 + y, 1 + x : 31 + x])
for view, mirrored in zip(views[:9], views[9:]):
    assert np.array_equal(mirrored, view[:, :, ::-1])
assert len({view.tobytes() for view in views}) == 18

# Two views of four tiles: one tile is lost in both views, and one is won in the second.
f32 = np.array([[1, 1, 0, 1], [1, 1, 0, 1]], bool)
other = np.array([[0, 1, 0, 1], [0, 1, 1, 1]], bool)
found = accuracy_views.compare("bf16", "ats samples=98", f32, other)
assert (found["right_only_in_f32"], found["right_only_in_type"], found["images"]) == (2, 1, 8)
assert found["top1_f32"] == 0.75 and found["top1"] == 0.625 and found["difference"] == -0.125
assert abs(found["standard_error"] - 5**0.5 / 8) < 1e-12  # tiles change by -2 and 1
assert found["first_view_difference"] == -0.25 and found["first_view_standard_error"] == 0.25
