def forward(x: Tensor,
    y: Tensor) -> Tensor:
  return torch.add(x, y)
