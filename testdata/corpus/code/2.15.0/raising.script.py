def forward(x: Tensor,
    n: int) -> Tensor:
  if torch.lt(n, 0):
    ops.prim.RaiseException("negative", "builtins.ValueError")
  else:
    pass
  if torch.eq(n, 0):
    ops.prim.RaiseException(torch.format("zero: {}", n), "builtins.RuntimeError")
  else:
    pass
  return x
