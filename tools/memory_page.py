#!/usr/bin/env python3
"""Writes docs/memory.md, the memory of a session, from core/plan/arrays.def.

    tools/memory_page.py            writes the page
    tools/memory_page.py --check    fails if the page is out of date
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "core/plan/arrays.def", ROOT / "docs/memory.md"

# Expressions of the table, in the order in which they are replaced.
SIZES = [
    (r"\(int64_t\)", ""), (r"rows_or_images\(p\)", "max(R, B)"), (r"last_rows\(p\)", "R_last"),
    (r"pooled_rows\(p, m\)", "P"), (r"\brows\(p\)", "R"), (r"merge_groups\(p, m\)", "G"), (r"layout\(p\)", "(B + 1)"), (r"input_values\(p, m\)", "input values"),
    (r"image_bytes\(p\)", "input_bytes rounded up to 16"), (r"widest\(m\)", "W"), (r"embeds_twice\(p, m\) \? R : p->segments\[1\]\.rows", "R or R_1"),
    (r"scores_by\(p, RVIT_PROBS_MAP\) \? R : R_last", "R or R_last"), (r"p->segments\[rvit_stage_of_\w+\(.*?\) \+ 1\]\.rows", "R of that block"),
    (r"p->segments\[0\]\.max_len", "L"), (r"before->rows / \(m->info\.merge \* m->info\.merge\)", "merge groups before"),
    (r"before->rows", "R_before"), (r"after->rows", "R_after"), (r"before->max_len", "L_before"), (r"p->desc\.max_images", "B"),
    (r"rvit_pooled_width\(&m->info\)", "pooled width"), (r"p->trace_stride", "(4 * R * D rounded up to 256)"), (r"p->pixelprune\.columns", "values of a patch"),
    (r"p->max_windows", "windows"), (r"sizeof\(rvit_image_axes\)", "512 KiB"), (r"m->map\.logits", "H rounded up to 4"), (r"m->mlp_width", "mlp_dim"),
    (r"m->info\.dim", "D"), (r"m->info\.n_heads", "H"), (r"m->info\.", ""), (r"\(\(?R or R_(1|last)\)?\)", r"(R or R_\1)"),
]
CONDITIONS = [
    (r"outputs\(p, RVIT_OUTPUT_(\w+)\)", r"output \1"), (r"scores_by\(p, RVIT_PROBS_CLS\)", "scores by CLS attention"),
    (r"scores_by\(p, RVIT_PROBS_RECEIVED\)", "scores by received attention"), (r"scores_by\(p, RVIT_PROBS_MAP\)", "`map-probe`"),
    (r"rvit_model_quantizes\(m\)", "quantized model"), (r"rvit_model_has_static_scales\(m\)", "quantized model with input scales in the checkpoint"),
    (r"rvit_model_rotates\(m\)", "rotary positions"), (r"finds_anchors\(p\)", "`hiprune` with alpha above 0"), (r"!merges\(p\)", "not `tome`"),
    (r"merges\(p\)", "`tome`"), (r"has_rope_table\(p, m\)", "variable resolution with rotary positions"), (r"!p->desc\.variable_resolution", "fixed resolution"),
    (r"p->desc\.variable_resolution", "variable resolution"), (r"m->info\.merge > 0", "the model merges patches"), (r"m->info\.window > 0", "attention windows"),
    (r"!prunes\(p\)", "no pruning"), (r"embeds_twice\(p, m\)", "a norm of the embedding, or variable resolution"), (r"prunes\(p\)", "pruning"),
    (r"reads_pixels\(p\)", "`pixelprune`"), (r"p->schedule\.tau > 0\.0", "tau above 0"), (r"pools\(p, m\)", "a head or pooled output with another pooling than CLS"),
    (r"m->info\.pooling == RVIT_POOLING_MAP", "attention pooling"), (r"!takes_images\(p\)", "not IMAGES"), (r"takes_images\(p\)", "IMAGES"),
    (r"!m->device->reads_mapped", "not on the CPU"), (r"p->desc\.input_memory != RVIT_INPUT_RUN", "not RUN"), (r"p->desc\.input_memory == RVIT_INPUT_(\w+)", r"\1"),
    (r"!p->desc\.fixed_batch", "no fixed_batch"), (r"p->desc\.(\w+)\.buffer == NULL", r"no desc.\1"), (r"p->desc\.(\w+)\.buffer != NULL", r"desc.\1"),
    (r"p->desc\.trace == RVIT_TRACE_INPUTS", "trace of inputs"), (r"p->desc\.trace", "trace"), (r"p->schedule\.given", "trace with the caller's masks"), (r"!scores\(p\)", "no scores"),
    (r"\bscores\(p\)", "the policy scores"), (r"ranks\(p\)", "a fixed number is kept"), (r"scores_positions\(p\)", "`random`"), (r"masks\(p\)", "`mask`"),
    (r"\|\|", "or"), (r"&&", "and"), (r"^1$", "always"),
]
BYTES = {"BYTE": "1", "INT32": "4", "F32": "4", "DTYPE": "e", "X_DTYPE": "4"}
KINDS = {"DEVICE": "device", "UPLOAD": "upload", "READBACK": "readback", "TRACE": "trace", "HOST": "host", "TABLES": "device, upload",
         "RESULTS": "device, readback"}
TOP = """# Memory of a session

`rvit_session_memory` returns the sizes that a session allocates: `device_size`, `upload_size`,
`readback_size`, `trace_size` and `host_size`. They are the sums of the arrays below, each rounded
up to 256 bytes. `tools/memory_page.py` writes this page from `core/plan/arrays.def`, from which the
library plans the memory.

* B is max_images, D the model's dim, H n_heads, e the bytes of an element of the model's dtype.
* R is the maximum number of rows of a batch before pruning: B * tokens, or max_tokens with variable
  resolution. L is the maximum number of tokens of an image: the model's tokens, or max_len.
  R_before, R_after and L_before are these before and after a stage, R_1 is R after the first stage
  and R_last after the last one.
* With variable resolution, let f(n) be the number of tokens that a stage keeps of n, L_i the maximum
  number of tokens of an image before the stage, p = f(L_i), and c the maximum of L_i f(n) - p n. The
  rows after the stage are then the minimum of the rows before it, B times the maximum of f(n), and
  (p * rows before + B c) / L_i.
* G is the number of merge groups: R / merge^2. A batch has at most min(G, (G + (window - 1) B) /
  window) attention windows.
* W is the maximum of the values that a row holds at different times: 3 D (4 D if blocks have a norm
  before proj), channels * patch_size^2 * patch_frames rounded up to 8 (twice that if e is 2), and
  mlp_dim (twice that with a gated MLP of a quantized model, or with a norm before fc2). On the CPU,
  a row holds 3 D and mlp_dim at the same time. mlp_dim is rounded up to 8, for int8 to 16 and for
  fp8 to 32.
* P is B, or 2 B for RVIT_POOLING_CLS_MEAN. The pooled width is D, or 2 D for that pooling and for
  distilled models. The input values are B * channels * image_height * image_width, or R times the
  values of a patch.

"Device" is device memory. "Upload" and "readback" are mapped memory. "Device, upload" and "device,
readback" are arrays in both memories: a table that is copied once, when the session is created, and
a result that is copied once per run. With `dense_fallback`, other sessions are timed first, one
after another; each size is then the maximum of all these sessions. HOST, FIXED, RUN and IMAGES are
values of `rvit_input_memory` and `rvit_input_kind`.

"""
BOTTOM = """
The host size also includes the session object and its plan. The sizes do not include this additional memory of the backends:

| memory | backend | size |
|---|---|---|
| host | all | objects for buffers, stream and recorded program: at most 16 KiB, plus 8 KiB per block and stage |
| device (`rvit_stats.working_size`) | CPU | none |
| | Vulkan | at most 1 KiB, plus 1 KiB per block and stage |
| | CUDA | at most 4 KiB + 32 bytes per image; `ats`: another 4 KiB + 16 bytes per token of the batch; 32 MiB if cuBLASLt uses split-K; while a `fixed_batch` session is created, an input and an output of a GEMM, on which cuBLASLt algorithms are timed |

The memory that drivers use internally is unknown. A stream of the caller keeps the list of ops of
its longest recording. On the CPU, all buffers come from the device's allocator, too.
"""


def replaced(text, rules):
    text = " ".join(text.split())
    for pattern, words in rules:
        text = re.sub(pattern, words, text)
    if re.search(r"->|\(p\b|\(m\b", text):
        raise SystemExit(f"core/plan/arrays.def: tools/memory_page.py has no words for {text!r}")
    return text


def arguments(text):
    """The arguments of a call; text begins after the parenthesis."""
    depth, found = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return found
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    raise SystemExit("core/plan/arrays.def: a row has no end")


def rows(macro):
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(), flags=re.S)
    for match in re.finditer(rf"^{macro}\(", text, flags=re.M):
        arena, name, kind, when, n = (part.strip() for part in arguments(text[match.end():]))
        yield f"| {KINDS[arena]} | `{name}` | {BYTES[kind]} | {replaced(n, SIZES)} | {replaced(when, CONDITIONS)} |"


def page():
    head = "| memory | array | bytes | elements | if |\n|---|---|---|---|---|\n"
    return (TOP + "## Arrays of a session\n\n" + head + "\n".join(rows("RVIT_SESSION_ARRAY")) + "\n\n## Arrays of each prune stage\n\n" + head +
            "\n".join(rows("RVIT_STAGE_ARRAY")) + "\n\n## Other allocations\n" + BOTTOM)


def main():
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        raise SystemExit("docs/memory.md is out of date: run tools/memory_page.py and commit the page")


if __name__ == "__main__":
    main()
