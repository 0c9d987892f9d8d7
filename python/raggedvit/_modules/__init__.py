"""Modules of timm and Hugging Face: their facts, their weights, and their pruned forward in PyTorch."""
