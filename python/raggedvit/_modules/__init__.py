"""Reads modules of timm and Hugging Face, and runs their pruned forward in PyTorch."""
