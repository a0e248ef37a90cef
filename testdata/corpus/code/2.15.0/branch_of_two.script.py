def forward(x: Tensor,
    n: int) -> Tensor:
  if torch.gt(n, 3):
    y, z = torch.add(x, 1), x
  else:
    if torch.gt(n, 1):
      y0, z0 = x, torch.sub(x, 1)
    else:
      y0, z0 = torch.mul(x, 2), torch.div(x, 2)
    y, z = y0, z0
  return torch.add(y, z)
