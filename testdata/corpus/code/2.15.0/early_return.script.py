def forward(x: Tensor,
    n: int) -> Tensor:
  if torch.eq(n, 0):
    _0 = x
  else:
    y = torch.mul(x, n)
    if torch.eq(n, 1):
      _1 = torch.add(y, 1)
    else:
      _1 = torch.sub(y, 1)
    _0 = _1
  return _0
