"""Arrays of any library as the compiled core takes them, and the ops on arrays that are not PyTorch's."""
