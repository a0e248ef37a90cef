def forward(x: Tensor,
    b: bool) -> Tensor:
  if b:
    _0 = x
  else:
    _0 = torch.add(x, 1)
  if b:
    _1 = 1
  else:
    _1 = 2
  return torch.mul(_0, _1)
