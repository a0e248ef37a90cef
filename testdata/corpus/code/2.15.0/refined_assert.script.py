def forward(x: Optional[Tensor]) -> Tensor:
  _0 = uninitialized(Tensor)
  if torch.__isnot__(x, None):
    x0 = unchecked_cast(Tensor, x)
  else:
    ops.prim.RaiseException("AssertionError: ")
    x0 = _0
  return torch.add(x0, 1)
