def forward(n: int) -> int:
  n0 = n
  _0 = True
  while _0:
    n1 = torch.add(n0, 1)
    if torch.gt(n1, 10):
      _1 = False
    else:
      _1 = True
    _0, n0 = _1, n1
  return n0
