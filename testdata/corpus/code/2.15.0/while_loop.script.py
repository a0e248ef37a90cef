def forward(x: Tensor,
    n: int) -> Tensor:
  x0 = x
  n0 = n
  _0 = torch.gt(n, 0)
  while _0:
    x1 = torch.add(x0, n0)
    n1 = torch.sub(n0, 1)
    _0, x0, n0 = torch.gt(n1, 0), x1, n1
  return x0
