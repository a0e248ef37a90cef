def forward(x: Tensor,
    n: int) -> Tensor:
  if torch.gt(n, 0):
    pass
  else:
    ops.prim.RaiseException("AssertionError: ")
  if torch.lt(n, 10):
    pass
  else:
    ops.prim.RaiseException("AssertionError: too large")
  if torch.eq(torch.dim(x), 2):
    pass
  else:
    _0 = torch.add("AssertionError: ", torch.format("{}", n))
    ops.prim.RaiseException(_0)
  return x
