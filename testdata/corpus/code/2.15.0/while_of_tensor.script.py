def forward(x: Tensor) -> Tensor:
  x0 = x
  _0 = bool(torch.lt(torch.sum(x), 10))
  while _0:
    x1 = torch.mul(x0, 2)
    _0, x0 = bool(torch.lt(torch.sum(x1), 10)), x1
  return x0
