def forward(x: Tensor) -> number:
  return torch.item(x)
