def forward(x: Tensor,
    s: str,
    n: int) -> Tuple[int, float, bool, str, int, float, float, bool, int]:
  _0 = (int(x), float(x), bool(x), str(n), int(s), float(s), float(n), bool(n), 2)
  return _0
