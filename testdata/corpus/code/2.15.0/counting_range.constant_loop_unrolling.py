def forward(x: Tensor,
    n: int) -> Tensor:
  x0 = x
  for _0 in range(torch.__range_length(1, n, 2)):
    i = torch.__derive_index(_0, 1, 2)
    x0 = torch.mul(x0, i)
  i0 = torch.__derive_index(0, 3, -1)
  x1 = torch.sub(x0, i0)
  _1 = torch.add(0, 1)
  i1 = torch.__derive_index(_1, 3, -1)
  x2 = torch.sub(x1, i1)
  _2 = torch.add(_1, 1)
  i2 = torch.__derive_index(_2, 3, -1)
  x3 = torch.sub(x2, i2)
  i3 = torch.__derive_index(torch.add(_2, 1), 3, -1)
  return torch.sub(x3, i3)
