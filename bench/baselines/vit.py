"""A ViT in plain PyTorch, from a state dict with timm's names: dense, pruned by a fixed-k gather, and the eager ragged pipeline."""

import torch
import torch.nn.functional as F

from .shapes import PRUNE_AFTER


def random_weights(shape, seed=1):
    """Returns (state dict in float16, origin). Uses timm's initialisation if timm is installed."""
    torch.manual_seed(seed)
    try:
        import timm

        if shape.name == "tiny":
            from timm.models.vision_transformer import VisionTransformer

            model = VisionTransformer(img_size=shape.size, patch_size=shape.patch, embed_dim=shape.dim, depth=shape.depth,
                                      num_heads=shape.heads, num_classes=shape.classes)
        else:
            model = timm.create_model(shape.name, pretrained=False, num_classes=shape.classes)
        return {k: v.half() for k, v in model.state_dict().items()}, f"timm {timm.__version__}"
    except ImportError as error:
        d, p, made = shape.dim, shape.patch, {}

        def add(name, *dims, std=0.02):
            made[name] = (torch.randn(*dims) * std).half()

        add("cls_token", 1, 1, d), add("pos_embed", 1, shape.tokens, d), add("patch_embed.proj.weight", d, 3, p, p)
        layers = [("patch_embed.proj.bias", d), ("norm.bias", d), ("head.bias", shape.classes)]
        add("head.weight", shape.classes, d)
        norms = ["norm"]
        for i in range(shape.depth):
            b = f"blocks.{i}."
            norms += [b + "norm1", b + "norm2"]
            add(b + "attn.qkv.weight", 3 * d, d), add(b + "attn.proj.weight", d, d)
            add(b + "mlp.fc1.weight", 4 * d, d), add(b + "mlp.fc2.weight", d, 4 * d)
            layers += [(b + "attn.qkv.bias", 3 * d), (b + "attn.proj.bias", d), (b + "mlp.fc1.bias", 4 * d), (b + "mlp.fc2.bias", d)]
        for name, n in layers + [(n + ".bias", d) for n in norms]:
            made[name] = torch.zeros(n).half()
        for name in norms:
            made[name + ".weight"] = torch.ones(d).half()
        return made, f"own random weights, timm is missing: {error}"


def reference_logits(shape, weights, images):
    """Returns logits in float64, and who computed them: timm if it is installed, else Vit."""
    images = images.double()
    try:
        import timm
        from timm.models.vision_transformer import VisionTransformer

        model = VisionTransformer(img_size=shape.size, patch_size=shape.patch, embed_dim=shape.dim, depth=shape.depth,
                                  num_heads=shape.heads, num_classes=shape.classes)
        model.load_state_dict({k: v.double() for k, v in weights.items()})
        model = model.double().to(images.device).eval()
        for block in model.blocks:
            block.attn.fused_attn = False
        with torch.no_grad():
            return model(images), f"timm {timm.__version__}"
    except ImportError:
        return Vit(shape, weights, images.device, torch.float64).dense(images), "bench/baselines/vit.py"


class Vit:
    def __init__(self, shape, weights, device, dtype):
        self.shape, self.dtype = shape, dtype
        self.w = {k: v.to(device=device, dtype=dtype) for k, v in weights.items()}

    def _norm(self, x, name):
        return F.layer_norm(x, (self.shape.dim,), self.w[name + ".weight"], self.w[name + ".bias"], 1e-6)

    def _linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def embed(self, images):
        x = F.conv2d(images, self.w["patch_embed.proj.weight"], self.w["patch_embed.proj.bias"], stride=self.shape.patch)
        x = x.flatten(2).transpose(1, 2)
        return torch.cat([self.w["cls_token"].expand(x.shape[0], -1, -1), x], 1) + self.w["pos_embed"]

    def _dense_attention(self, qkv):
        b, s, _ = qkv.shape
        q, k, v = qkv.view(b, s, 3, self.shape.heads, -1).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, -1)

    def block(self, x, i, attention):
        name = f"blocks.{i}."
        x = x + self._linear(attention(self._linear(self._norm(x, name + "norm1"), name + "attn.qkv")), name + "attn.proj")
        hidden = F.gelu(self._linear(self._norm(x, name + "norm2"), name + "mlp.fc1"))
        return x + self._linear(hidden, name + "mlp.fc2")

    def _head(self, cls_rows):
        return self._linear(self._norm(cls_rows, "norm"), "head")

    @torch.no_grad()
    def dense(self, images):
        x = self.embed(images)
        for i in range(self.shape.depth):
            x = self.block(x, i, self._dense_attention)
        return self._head(x[:, 0])

    def kept(self, keep):
        """Rows kept per image: the CLS row and the best patches, in total the fewest that the library's l2 may keep."""
        return max(1, int(keep * self.shape.tokens))

    def _gather(self, x, k):
        score = x[:, 1:].float().square().sum(-1)
        best = score.topk(k - 1, sorted=False).indices
        rows = x[:, 1:].gather(1, best[:, :, None].expand(-1, -1, x.shape[2]))
        return torch.cat([x[:, :1], rows], 1)

    # The parts of the pruned forward, as in bench/stages.c.
    @torch.no_grad()
    def front(self, images):
        x = self.embed(images)
        for i in range(PRUNE_AFTER + 1):
            x = self.block(x, i, self._dense_attention)
        return x

    @torch.no_grad()
    def prune(self, x, keep):
        return self._gather(x, self.kept(keep))

    @torch.no_grad()
    def late(self, x, attention=None):
        for i in range(PRUNE_AFTER + 1, self.shape.depth):
            x = self.block(x, i, attention or self._dense_attention)
        return x

    @torch.no_grad()
    def head(self, x):
        return self._head(x[:, 0])

    def gather(self, images, keep):
        return self.head(self.late(self.prune(self.front(images), keep)))

    def _mask(self, x, keep, threshold):
        score = x.float().norm(dim=-1)
        if threshold is not None:
            mask = score >= threshold
        else:
            mask = torch.zeros_like(score, dtype=torch.bool)
            mask.scatter_(1, score.topk(self.kept(keep), sorted=False).indices, True)
        mask[:, 0] = True
        return mask

    @torch.no_grad()
    def padded(self, images, keep, threshold=None):
        """Keeps all rows and masks pruned ones as keys: the cost of padding to the unpruned length, without copies."""
        x = self.front(images)
        b, s, _ = x.shape
        mask = self._mask(x, keep, threshold)[:, None, None, :]

        def attention(qkv):
            q, k, v = qkv.view(b, s, 3, self.shape.heads, -1).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, s, -1)

        return self.head(self.late(x, attention))

    @torch.no_grad()
    def median_norm(self, images):
        """A threshold that about half of the tokens reach."""
        return float(self.front(images).float().norm(dim=-1).median())

    @torch.no_grad()
    def ragged_eager(self, images, keep, attention, threshold=None):
        """The pipeline of arXiv 2604.15408 in PyTorch: score, mask, pack, varlen attention. The host reads the lengths back.
        attention: called as attention(qkv, cu_seqlens, longest) on packed rows."""
        x = self.front(images)
        mask = self._mask(x, keep, threshold)
        lengths = mask.sum(1, dtype=torch.int32)
        cu_seqlens = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        packed, longest = x[mask], int(lengths.max())
        for i in range(PRUNE_AFTER + 1, self.shape.depth):
            packed = self.block(packed, i, lambda qkv: attention(qkv, cu_seqlens, longest))
        return self._head(packed[cu_seqlens[:-1].long()])
