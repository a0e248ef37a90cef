def forward(x: Tensor) -> Tensor:
  _0 = uninitialized(Tensor)
  ops.prim.RaiseException("never", "builtins.Exception")
  return _0
