def forward(x: Tensor,
    y: Tensor) -> Tensor:
  _0 = torch.add(torch.add(x, y, alpha=3), torch.sub(x, y))
  return _0
