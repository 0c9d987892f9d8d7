#!/usr/bin/env python3
"""What a model of timm or transformers computes in float64 of given images, or of noise, for raggedvit verify MODEL --reference DUMP, where
MODEL has the same weights. Needs torch, numpy, safetensors and the library in question from PyPI.

  dump_reference.py --timm NAME [--checkpoint FILE] --out DUMP.safetensors
  dump_reference.py --transformers DIR --out DUMP.safetensors
"""
import argparse
import pathlib

import reference_model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the dump's file")
    reference_model.add_arguments(parser)
    options = parser.parse_args()
    if bool(options.timm) + bool(options.transformers) != 1:
        parser.error("give one of --timm and --transformers")
    reference_model.write(options)


if __name__ == "__main__":
    main()
