"""The measured models."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    dim: int
    heads: int
    size: int
    depth: int = 12
    patch: int = 16
    classes: int = 1000

    @property
    def tokens(self):
        return 1 + (self.size // self.patch) ** 2


SHAPES = {s.name: s for s in (
    Shape("deit_tiny_patch16_224", 192, 3, 224), Shape("deit_small_patch16_224", 384, 6, 224),
    Shape("deit_base_patch16_224", 768, 12, 224), Shape("deit_base_patch16_384", 768, 12, 384))}
TINY = Shape("tiny", 128, 2, 32, depth=5, patch=8, classes=10)
PRUNE_AFTER = 3  # block
