"""SigLIP2 NaFlex on images with different patch grids: the library's variable-resolution sessions, PyTorch's packed forward on
FlashAttention-2's varlen kernel, and transformers' padded model, with the methods that sessions.measure calls."""

import ctypes

import numpy
import torch
import torch.nn.functional as F

from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new


def bounds_of(lengths):
    return [0, *numpy.cumsum(lengths).tolist()]


class PackedSession:
    """n packed variable-resolution sessions of one model, so that one can be enqueued while another runs. Patches and logits are the
    caller's tensors on the device; each run passes the grids from the host."""

    def __init__(self, name, model, patches, grids, n=1):
        context, library = model.context, model.library
        self.name, self.library, self.patches = name, library, patches  # the sessions read the patches
        self.grids = numpy.ascontiguousarray(grids, numpy.int32)
        tokens = self.grids.prod(axis=1)
        self.logits = [context.empty(len(grids), model.info.n_classes, dtype=torch.float32) for _ in range(n)]
        self.handles = []
        for logits in self.logits:
            desc = new("rvit_session_desc", variable_resolution=1, input=CONSTANTS["RVIT_INPUT_PATCHES"],
                       input_memory=CONSTANTS["RVIT_INPUT_FIXED"], max_images=len(grids), max_tokens=int(tokens.sum()), max_len=int(tokens.max()),
                       stream=context.stream, input_view=context.view(patches), logits=context.view(logits))
            self.handles.append(library.make("rvit_session_create", model.handle, ctypes.byref(desc)))
        self._run = new("rvit_run_args", n_images=len(grids))
        self._run.input.kind, self._run.input.grids = CONSTANTS["RVIT_INPUT_PATCHES"], self.grids.ctypes.data
        self._pointer = ctypes.addressof(self._run)
        self._enqueue, self._wait = library.raw.rvit_session_enqueue, library.raw.rvit_session_wait

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.raw.rvit_status_detail().decode())

    def enqueue(self, i=0):
        self._check(self._enqueue(self.handles[i], self._pointer))

    def wait(self, i=0):
        self._check(self._wait(self.handles[i]))

    def close(self):
        for handle in self.handles:
            self.library.rvit_session_destroy(handle)


class BySize:
    """One session per image size, enqueued one after another."""

    name = "raggedvit, one call per size"

    def __init__(self, model, batch):
        self.parts = []
        for grid, members in batch.by_size().items():
            patches = model.context.empty(len(members) * grid[0] * grid[1], batch.patches.shape[1], dtype=torch.float32)
            patches.copy_(torch.cat([batch.patches_of(i) for i in members]))
            self.parts.append(PackedSession("", model, patches, [grid] * len(members)))
        self.handles = [None]

    def enqueue(self, i=0):
        for part in self.parts:
            part.enqueue()

    def wait(self, i=0):
        for part in self.parts:
            part.wait()

    def close(self):
        for part in self.parts:
            part.close()


class Batch:
    """Concatenated patches of images with different grids: float32 on the device, with values that float16 can represent."""

    def __init__(self, context, grids, width, seed=1):
        self.grids = [tuple(int(side) for side in grid) for grid in grids]
        self.lengths = [lines * columns for lines, columns in self.grids]
        self.bounds, self.longest = bounds_of(self.lengths), max(self.lengths)
        random = torch.randn((self.bounds[-1], width), generator=torch.Generator().manual_seed(seed)).half()
        self.patches = context.empty(*random.shape, dtype=torch.float32)
        self.patches.copy_(random)
        self.half = random.to(self.patches.device)
        self.host = random.float().numpy()
        self.device = self.patches.device
        self.cu_seqlens = torch.tensor(self.bounds, dtype=torch.int32, device=self.device)
        self.one_each = torch.arange(len(self.grids) + 1, dtype=torch.int32, device=self.device)
        self.spatial = torch.tensor(self.grids)

    def patches_of(self, i):
        return self.patches[self.bounds[i]:self.bounds[i + 1]]

    def by_size(self):
        sizes = {}
        for i, grid in enumerate(self.grids):
            sizes.setdefault(grid, []).append(i)
        return sizes

    def padded(self, dtype):
        """The outputs of transformers' processor: rows padded to the longest image, and a mask of the valid ones."""
        rows = torch.zeros((len(self.grids), self.longest, self.patches.shape[1]), dtype=dtype, device=self.device)
        valid = torch.zeros((len(self.grids), self.longest), dtype=torch.int32, device=self.device)
        for i, length in enumerate(self.lengths):
            rows[i, :length] = self.patches_of(i)
            valid[i, :length] = 1
        return rows, valid


def attention_of(device):
    """PyTorch's FlashAttention-2 for ragged batches; on a CPU, which it does not support, one image after another."""
    if device.type == "cuda":
        from torch.nn.attention.varlen import varlen_attn

        return varlen_attn

    def one_by_one(q, k, v, cu_q, cu_k, most_q, most_k):
        rows, keys = cu_q.tolist(), cu_k.tolist()
        parts = []
        for i in range(len(rows) - 1):
            a, b, c, d = rows[i], rows[i + 1], keys[i], keys[i + 1]
            one = (x.transpose(0, 1)[None] for x in (q[a:b], k[c:d], v[c:d]))
            parts.append(F.scaled_dot_product_attention(*one)[0].transpose(0, 1))
        return torch.cat(parts)

    return one_by_one


class Packed(torch.nn.Module):
    """transformers' weights in a forward without padding: queries, keys and values by one GEMM, attention by attention_of."""

    def __init__(self, model, batch):
        super().__init__()
        self.heads, self.eps = model.config.num_attention_heads, model.config.layer_norm_eps
        self.attend = attention_of(batch.device)
        embeddings = model.embeddings
        self.project = embeddings.patch_embedding
        side = embeddings.position_embedding_size
        self.table = embeddings.position_embedding.weight.detach().reshape(1, side, side, -1).permute(0, 3, 1, 2)
        self.blocks = [self._block_of(layer) for layer in model.encoder.layers]
        self.norm, self.head = model.post_layernorm, model.head
        with torch.no_grad():
            weight, bias = self.head.attention.in_proj_weight, self.head.attention.in_proj_bias
            dim = weight.shape[1]
            self.query = F.linear(self.head.probe[0], weight[:dim], bias[:dim]).reshape(1, self.heads, -1)
            self.keys = weight[dim:].detach(), bias[dim:].detach()
        self.run_block = self.block

    @staticmethod
    def _block_of(layer):
        attn = layer.self_attn
        parts = (attn.q_proj, attn.k_proj, attn.v_proj)
        return (layer.layer_norm1, torch.cat([p.weight.detach() for p in parts]), torch.cat([p.bias.detach() for p in parts]), attn.out_proj,
                layer.layer_norm2, layer.mlp.fc1, layer.mlp.fc2)

    def positions(self, batch):
        """Resizes the position table as transformers does, once per grid."""
        made = {}
        for grid in batch.grids:
            if grid not in made:
                resized = F.interpolate(self.table, size=grid, mode="bilinear", align_corners=False, antialias=True)
                made[grid] = resized[0].flatten(1).t()
        return torch.cat([made[grid] for grid in batch.grids])

    def block(self, x, cu_seqlens, longest, n1w, n1b, qkv_w, qkv_b, out_w, out_b, n2w, n2b, fc1_w, fc1_b, fc2_w, fc2_b):
        dim = x.shape[1]
        q, k, v = F.linear(F.layer_norm(x, (dim,), n1w, n1b, self.eps), qkv_w, qkv_b).view(x.shape[0], 3, self.heads, -1).unbind(1)
        attended = self.attend(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
        x = x + F.linear(attended.reshape(x.shape), out_w, out_b)
        hidden = F.gelu(F.linear(F.layer_norm(x, (dim,), n2w, n2b, self.eps), fc1_w, fc1_b), approximate="tanh")
        return x + F.linear(hidden, fc2_w, fc2_b)

    def pool(self, x, cu_seqlens, one_each, longest):
        n, dim = one_each.shape[0] - 1, x.shape[1]
        k, v = F.linear(self.norm(x), *self.keys).view(x.shape[0], 2, self.heads, -1).unbind(1)
        pooled = self.attend(self.query.expand(n, -1, -1).contiguous(), k, v, one_each, cu_seqlens, 1, longest).reshape(n, dim)
        pooled = self.head.attention.out_proj(pooled)
        return pooled + self.head.mlp(self.head.layernorm(pooled))

    def forward(self, patches, batch, positions=None):
        x = self.project(patches) + (self.positions(batch) if positions is None else positions)
        for n1, qkv_w, qkv_b, out, n2, fc1, fc2 in self.blocks:
            x = self.run_block(x, batch.cu_seqlens, batch.longest, n1.weight, n1.bias, qkv_w, qkv_b, out.weight, out.bias, n2.weight, n2.bias,
                               fc1.weight, fc1.bias, fc2.weight, fc2.bias)
        return self.run_pool(x, batch.cu_seqlens, batch.one_each, batch.longest)

    run_pool = pool

    def compiled(self):
        """Compiles the block (one for all layers) and the pooling for exactly these sizes. Returns self."""
        torch._dynamo.reset()
        self.run_block = torch.compile(self.block, dynamic=False, fullgraph=True)
        self.run_pool = torch.compile(self.pool, dynamic=False, fullgraph=True)
        return self


def padded(model, batch, dtype, keep_positions=False):
    """transformers' own forward of the padded batch. keep_positions: resizes the position tables once, not in every call."""
    rows, valid = batch.padded(dtype)
    spatial = batch.spatial

    def call():
        return model(pixel_values=rows, pixel_attention_mask=valid, spatial_shapes=spatial).pooler_output

    if not keep_positions:
        return call
    table = model.embeddings.position_embedding.weight
    side = model.embeddings.position_embedding_size
    kept = model.embeddings.resize_positional_embeddings(table.reshape(side, side, -1), spatial, batch.longest)

    def with_kept():
        model.embeddings.resize_positional_embeddings = lambda *args, **kwargs: kept
        try:
            return call()
        finally:
            del model.embeddings.resize_positional_embeddings

    return with_kept


def by_size(packed, context, batch):
    """The packed forward, one call per image size: no batch is ragged, so every baseline could run it."""
    parts = []
    for grid, members in batch.by_size().items():
        part = Batch(context, [grid] * len(members), batch.patches.shape[1])
        part.half = torch.cat([batch.half[batch.bounds[i]:batch.bounds[i + 1]] for i in members])
        parts.append((part, packed.positions(part)))
    return lambda: [packed(part.half, part, positions) for part, positions in parts]


def random_images(sizes, seed=2):
    """Random uint8 images [height, width, 3], one for each (width, height)."""
    random = numpy.random.default_rng(seed)
    return [random.integers(0, 256, (height, width, 3), numpy.uint8) for width, height in sizes]


class ImageSessions:
    """Packed variable-resolution sessions that read uint8 images of any size from host memory and return logits there. in_place: the images
    are in the sessions' memory, where a decoder would write them; otherwise each run copies them."""

    def __init__(self, name, model, arrays, grids, patch, in_place, n=2):
        library, constants = model.library, CONSTANTS
        self.name, self.library, self.keeps = name, library, arrays
        tokens = [lines * columns for lines, columns in grids]
        side = model.info.image_height
        self.recipe = new("rvit_image_recipe", fit=constants["RVIT_FIT_SQUASH"], filter=constants["RVIT_FILTER_BILINEAR"],
                          processor=constants["RVIT_PROCESSOR_HF"], height=side, width=side, mean=(0.5,) * 3, std=(0.5,) * 3)
        self.images = [self._images_of(arrays, grids, patch) for _ in range(n)]
        args = new("rvit_images_args", n_images=len(grids), max_images=len(grids), max_rows=sum(tokens), patch_size=patch)
        args.recipe, args.images = ctypes.addressof(self.recipe), ctypes.addressof(self.images[0])
        size = ctypes.c_int64()
        library.rvit_images_write(ctypes.byref(args), None, 0, ctypes.byref(size))
        desc = new("rvit_session_desc", variable_resolution=1, input=CONSTANTS["RVIT_INPUT_IMAGES"], max_images=len(grids), max_tokens=sum(tokens), max_len=max(tokens),
                   input_bytes=size.value + 128 * (len(grids) + 1))
        desc.recipe = ctypes.addressof(self.recipe)
        self.handles = [library.make("rvit_session_create", model.handle, ctypes.byref(desc)) for _ in range(n)]
        self.runs = [new("rvit_run_args", n_images=len(grids)) for _ in range(n)]
        for handle, run, images in zip(self.handles, self.runs, self.images):
            run.input.kind, run.input.data = CONSTANTS["RVIT_INPUT_IMAGES"], ctypes.addressof(images)
            if in_place:
                self._fill(handle, images)
        self._enqueue, self._wait = library.raw.rvit_session_enqueue, library.raw.rvit_session_wait

    @staticmethod
    def _images_of(arrays, grids, patch):
        from raggedvit._c.layouts import TYPES

        images = (TYPES["rvit_image"] * len(arrays))()
        for image, array, (lines, columns) in zip(images, arrays, grids):
            filled = new("rvit_image", data=array.ctypes.data, height=array.shape[0], width=array.shape[1],
                         target_height=lines * patch, target_width=columns * patch)
            ctypes.memmove(ctypes.byref(image), ctypes.byref(filled), ctypes.sizeof(filled))
        return images

    def _fill(self, handle, images):
        at = self.library.rvit_session_input_memory(handle, None)
        at = ctypes.cast(at, ctypes.c_void_p).value
        for image, array in zip(images, self.keeps):
            ctypes.memmove(at, array.ctypes.data, array.nbytes)
            image.data = at
            at += (array.nbytes + 63) // 64 * 64

    def enqueue(self, i=0):
        if self._enqueue(self.handles[i], ctypes.byref(self.runs[i])):
            raise RuntimeError(self.library.raw.rvit_status_detail().decode())

    def wait(self, i=0):
        if self._wait(self.handles[i]):
            raise RuntimeError(self.library.raw.rvit_status_detail().decode())

    def logits(self, n_classes):
        view = new("rvit_result_view")
        self.library.rvit_session_get(self.handles[0], CONSTANTS["RVIT_RESULT_LOGITS"], 0, ctypes.byref(view))
        values = ctypes.cast(view.data, ctypes.POINTER(ctypes.c_float * (self.runs[0].n_images * n_classes))).contents
        return torch.from_numpy(numpy.frombuffer(values, numpy.float32).reshape(-1, n_classes).copy())

    def close(self):
        for handle in self.handles:
            self.library.rvit_session_destroy(handle)


def patches_of_images(arrays, grids, patch):
    """The rows that transformers' processor makes, float32 on the host: torchvision's resize of 8-bit images, then mean and std 0.5."""
    from torchvision.transforms.v2 import functional as V

    rows = []
    for array, (lines, columns) in zip(arrays, grids):
        tensor = V.resize(torch.from_numpy(array).permute(2, 0, 1), [lines * patch, columns * patch], V.InterpolationMode.BILINEAR, antialias=True)
        values = (tensor.float() - 127.5) / 127.5
        rows.append(values.reshape(3, lines, patch, columns, patch).permute(1, 3, 2, 4, 0).reshape(lines * columns, -1))
    return torch.cat(rows)


def torchvision_packed(packed, context, arrays, grids, patch, kind):
    """The packed forward from pinned images: copies, resizes, normalises and cuts those of one size together. Positions are prepared."""
    from torchvision.transforms.v2 import functional as V

    groups = {}
    for array, grid in zip(arrays, grids):
        groups.setdefault((array.shape, grid), []).append(torch.from_numpy(array).permute(2, 0, 1))
    stacks = [(grid, torch.stack(members)) for (_, grid), members in groups.items()]
    if context.torch_device.type == "cuda":
        stacks = [(grid, stack.pin_memory()) for grid, stack in stacks]
    batch = Batch(context, [grid for grid, stack in stacks for _ in range(len(stack))], 3 * patch * patch)
    positions = packed.positions(batch)

    def call():
        rows = []
        for (lines, columns), stack in stacks:
            there = stack.to(batch.device, non_blocking=True)
            made = V.resize(there, [lines * patch, columns * patch], V.InterpolationMode.BILINEAR, antialias=True).to(kind) / 127.5 - 1
            rows.append(made.reshape(-1, 3, lines, patch, columns, patch).permute(0, 2, 4, 3, 5, 1).reshape(-1, 3 * patch * patch))
        return packed(torch.cat(rows), batch, positions)

    return call
