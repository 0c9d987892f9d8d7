"""Attention and its gradient in plain PyTorch, in the precision of the inputs. The gradient is computed by autograd and
by the formula of fused attention, which does not store the attention weights."""

import torch


def images(lengths):
    begin = 0
    for length in lengths:
        if length:
            yield slice(begin, begin + length)
        begin += length


def logits_of(q, k, key_bias, rows, scale):
    logits = scale * torch.einsum("ihd,jhd->hij", q[rows], k[rows])
    return logits if key_bias is None else logits + key_bias[rows].to(logits.dtype)


def attention(q, k, v, key_bias, lengths, scale):
    """Returns out, lse and cls_probs of the rows of all images."""
    parts = []
    for rows in images(lengths):
        logits = logits_of(q, k, key_bias, rows, scale)
        p = logits.softmax(-1)
        parts.append((torch.einsum("hij,jhd->ihd", p, v[rows]), logits.logsumexp(-1).T, p[:, 0].T))
    heads = q.shape[1]
    return tuple(map(torch.cat, zip(*parts))) if parts else (q[:0], q.new_empty((0, heads)), q.new_empty((0, heads)))


def by_autograd(q, k, v, key_bias, d_out, d_lse, d_cls, lengths, scale, dtype):
    """Returns the gradients of q, k, v and key_bias."""
    leaves = [None if t is None else t.to(dtype).clone().requires_grad_() for t in (q, k, v, key_bias)]
    outs = attention(*leaves, lengths, scale)
    if not outs[0].numel():
        return [None if leaf is None else torch.zeros_like(leaf) for leaf in leaves]
    weights = [(out, weight.to(out.dtype)) for out, weight in zip(outs, (d_out, d_lse, d_cls)) if weight is not None]
    torch.autograd.backward([out for out, _ in weights], [weight for _, weight in weights])
    return [None if leaf is None else leaf.grad for leaf in leaves]


def judge(test, found, arguments, dtype, live):
    """Checks that gradients are zero past the live rows, and that their error against float64 is at most twice that
    of PyTorch in the same precision. The gradients of q, k and v count as one, that of a packed qkv; key_bias, if
    given, is checked separately. The allowed error is at least an epsilon of the largest gradient, because PyTorch
    can be exact by chance, for example with one key."""
    exact = by_autograd(*arguments, torch.float64)
    plain = [by(*arguments, dtype) for by in (by_autograd, by_formula)]
    for name, at in (("qkv", slice(0, 3)), ("key_bias", slice(3, 4))):
        got = [gradient for gradient in found[at] if gradient is not None]
        test.assertTrue(all(torch.isfinite(g).all() and (g[live:] == 0).all() for g in got))
        if live and got:
            error = max((g[:live].double() - e).abs().max() for g, e in zip(got, exact[at]))
            allowed = max((g.double() - e).abs().max() for other in plain for g, e in zip(other[at], exact[at]))
            largest = max(e.abs().max() for e in exact if e is not None)
            allowed = max(allowed, largest * torch.finfo(got[0].dtype).eps)
            test.assertLessEqual(error, 2 * allowed, f"{name}: {arguments[-2]}, {dtype}")


def by_formula(q, k, v, key_bias, d_out, d_lse, d_cls, lengths, scale, dtype):
    """The same as by_autograd. Sums are in float32 or wider; out is rounded to dtype."""
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v, d_out = (t.to(dtype).to(wide) for t in (q, k, v, d_out))
    out, lse, cls = attention(q, k, v, key_bias, lengths, scale)
    out = out.to(dtype).to(wide)
    d_q, d_k, d_v, d_bias = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), q.new_zeros(len(q))
    for rows in images(lengths):
        p = torch.exp(logits_of(q, k, key_bias, rows, scale) - lse[rows].T[:, :, None])
        d_p = torch.einsum("ihd,jhd->hij", d_out[rows], v[rows])
        d = (d_out[rows] * out[rows]).sum(-1).T
        if d_lse is not None:
            d = d - d_lse[rows].to(wide).T
        if d_cls is not None:
            d_p[:, 0] += d_cls[rows].to(wide).T
            d[:, 0] += (cls[rows] * d_cls[rows].to(wide)).sum(0)
        d_s = p * (d_p - d[:, :, None])
        d_q[rows] = scale * torch.einsum("hij,jhd->ihd", d_s, k[rows])
        d_k[rows] = scale * torch.einsum("hij,ihd->jhd", d_s, q[rows])
        d_v[rows] = torch.einsum("hij,ihd->jhd", p, d_out[rows])
        d_bias[rows] = d_s.sum((0, 1))
    return [d_q.to(dtype), d_k.to(dtype), d_v.to(dtype), None if key_bias is None else d_bias]
