def forward(a: int,
    b: int,
    c: float) -> Tuple[int, int, float, float, int, int, int, int, int, int, int, float, int, float, float, int, float]:
  _0 = (torch.floordiv(a, b), torch.remainder(a, b), torch.div(a, b), torch.pow(a, b), torch.neg(a), ops.prim.abs(a), torch.__and__(a, b), torch.__or__(a, b), torch.__xor__(a, b), torch.__lshift__(a, 1), torch.__rshift__(b, 1), torch.floordiv(c, 2), torch.floor(c), torch.sqrt(c), torch.round(c), ops.prim.min(a, b), ops.prim.max(c, 1.))
  return _0
