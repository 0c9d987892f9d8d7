"""Trains a patched module: 20 steps give the losses of an independent forward, and the parts of the example work."""

import unittest

import support  # noqa: F401 (finds the package)
from modules import timm_module, torch
import raggedvit
from raggedvit import Policy

F = torch.nn.functional


def plain_evit(module, x, keep, blocks, fuse):
    """Computes EViT (arXiv 2202.07800) for a timm module in full precision, independently of the package."""
    x = module.patch_embed(x)
    x = torch.cat([module.cls_token.expand(len(x), -1, -1), x], 1) + module.pos_embed
    for index, block in enumerate(module.blocks):
        b, n, dim = x.shape
        q, k, v = block.attn.qkv(block.norm1(x)).view(b, n, 3, 2, dim // 2).permute(2, 0, 3, 1, 4)
        probs = (q @ k.transpose(-1, -2) * (dim // 2) ** -0.5).softmax(-1)
        x = x + block.attn.proj((probs @ v).transpose(1, 2).reshape(b, n, dim))
        if index in blocks:
            cls = probs[:, :, 0, 1:].mean(1)
            left = -int(-(keep * (n - 1)) // 1)  # rounded up
            best = cls.topk(left, dim=1).indices.sort(1).values
            kept = torch.zeros_like(cls, dtype=torch.bool).scatter_(1, best, True)
            rows = [x[:, :1], x[:, 1:].gather(1, best[:, :, None].expand(-1, -1, dim))]
            if fuse:
                rows.append(((cls * ~kept)[:, :, None] * x[:, 1:]).sum(1, keepdim=True))
            x = torch.cat(rows, 1)
        x = x + block.mlp(block.norm2(x))
    return module.head(module.norm(x)[:, 0])


def losses(module, forward, steps):
    optimizer = torch.optim.SGD(module.parameters(), 0.02, momentum=0.9)
    generator, found = torch.Generator().manual_seed(11), []
    for _ in range(steps):
        x, labels = torch.randn(8, 3, 32, 32, generator=generator), torch.randint(7, (8,), generator=generator)
        loss = F.cross_entropy(forward(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


class TrainingTest(unittest.TestCase):
    def test_20_steps_equal_a_plain_implementation(self):
        for policy, fuse in (("evit", False), ("evit-fused", True)):
            with self.subTest(policy):
                mine, plain = timm_module().train(), timm_module().train()
                raggedvit.patch.timm(mine, Policy(policy, keep=0.5, blocks=(1, 2)), n_threads=2)
                ours = losses(mine, mine, 20)
                theirs = losses(plain, lambda x: plain_evit(plain, x, 0.5, (1, 2), fuse), 20)
                for step, (a, b) in enumerate(zip(ours, theirs)):
                    self.assertLess(abs(a - b), 2e-4 * max(1, b), f"step {step}: {a} and {b}")

    def test_recorded_forward_follows_training(self):
        module = timm_module()
        raggedvit.patch.timm(module, Policy("evit", keep=0.5, blocks=(1,)), n_threads=2)
        x, labels = torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(2)), torch.arange(16) % 7

        def evaluate():
            with torch.no_grad():
                return F.cross_entropy(module.eval()(x), labels).item()

        before = evaluate()
        optimizer = torch.optim.SGD(module.train().parameters(), 0.01)
        for _ in range(10):
            loss = F.cross_entropy(module(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.assertLess(evaluate(), 0.8 * before)


if __name__ == "__main__":
    unittest.main()
