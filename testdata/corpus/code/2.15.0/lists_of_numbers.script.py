def forward() -> Tuple[List[float], List[complex], complex]:
  _0 = [inf, nan, 1e-300, -0., 123456789.125, 10000000000, 10000000000000000]
  _1 = (_0, [0.+1.j, 2.+3.j, -1.5-0.5j], 1.+2.j)
  return _1
