#!/usr/bin/env python3
"""What FFmpeg makes of small NV12 images without a chroma filter, for tests/ops/preprocess.c.

  make_nv12_vectors.py > tests/ops/nv12_vectors.h

Needs av (PyAV) and numpy from PyPI. FFmpeg converts with its accurate rounding: its fast conversion is up to 3 off the equations. The
images have valid colours only: FFmpeg's sums wrap around for others.
"""
import fractions
import textwrap

import av
import numpy

WIDTH, HEIGHT = 16, 8
FLAGS = "neighbor+accurate_rnd+full_chroma_int"


def make_image(matrix, full):
    """Converts random RGB of 2 x 2 blocks by the equations and varies the luma of each pixel."""
    random = numpy.random.default_rng(7)
    red, blue = (0.2126, 0.0722) if matrix else (0.299, 0.114)
    rgb = random.random((HEIGHT // 2, WIDTH // 2, 3))
    luma = rgb @ [red, 1 - red - blue, blue]
    cb, cr = (rgb[..., 2] - luma) / (2 * (1 - blue)), (rgb[..., 0] - luma) / (2 * (1 - red))
    luma = luma.repeat(2, 0).repeat(2, 1) * (1 + 0.02 * random.random((HEIGHT, WIDTH)))
    y = luma.clip(0, 1) * (255 if full else 219) + (0 if full else 16)
    chroma = numpy.stack([cb, cr], -1) * (255 if full else 224) + 128
    return numpy.concatenate([y.round().ravel(), chroma.round().clip(0, 255).ravel()]).astype(numpy.uint8)


def of_ffmpeg(values, matrix, full):
    graph = av.filter.Graph()
    source = graph.add_buffer(width=WIDTH, height=HEIGHT, format=av.VideoFormat("nv12", WIDTH, HEIGHT), time_base=fractions.Fraction(1, 25))
    name, reach = "bt709" if matrix else "bt601", "full" if full else "limited"
    scale = graph.add("scale", f"flags={FLAGS}:in_color_matrix={name}:out_color_matrix={name}:in_range={reach}:out_range=full")
    form, sink = graph.add("format", "rgb24"), graph.add("buffersink")
    source.link_to(scale)
    scale.link_to(form)
    form.link_to(sink)
    graph.configure()
    frame = av.VideoFrame.from_ndarray(values.reshape(HEIGHT * 3 // 2, WIDTH), format="nv12")
    frame.pts = 0
    graph.push(frame)
    return graph.pull().to_ndarray()


def show(name, values):
    text = ", ".join(str(v) for v in values.ravel())
    print(f"static const uint8_t {name}[] = {{\n{textwrap.fill(text, 136, initial_indent='    ', subsequent_indent='    ')}}};")


def main():
    scaler = ".".join(map(str, av.library_versions["libswscale"]))
    print(f"/* Made by tests/ops/make_nv12_vectors.py with PyAV {av.__version__}, libswscale {scaler}. */")
    print(f"enum {{ NV12_WIDTH = {WIDTH}, NV12_HEIGHT = {HEIGHT} }};")
    for matrix in (0, 1):
        for full in (0, 1):
            values = make_image(matrix, full)
            show(f"nv12_{matrix}{full}", values)
            show(f"nv12_rgb_{matrix}{full}", of_ffmpeg(values, matrix, full))


if __name__ == "__main__":
    main()
