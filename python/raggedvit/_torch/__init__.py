"""The ops on PyTorch tensors and as operators of torch.ops. Only the modules in this package import PyTorch."""
