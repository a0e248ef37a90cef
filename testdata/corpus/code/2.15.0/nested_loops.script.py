def forward(x: Tensor,
    n: int) -> Tuple[Tensor, int]:
  x0 = x
  n0 = n
  for i in range(n):
    x1 = x0
    for j in range(i):
      x1 = torch.add(x1, torch.mul(i, j))
    n1 = n0
    _0 = torch.gt(n0, i)
    while _0:
      n2 = torch.sub(n1, 1)
      _0, n1 = torch.gt(n2, i), n2
    x0, n0 = x1, n1
  return (x0, n0)
