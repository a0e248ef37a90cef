def forward(x: Any) -> int:
  _0 = uninitialized(int)
  _1 = isinstance(x, int)
  if _1:
    _2, _3 = True, unchecked_cast(int, x)
  else:
    x0 = unchecked_cast(Any, x)
    _4 = isinstance(x0, (float, str))
    if _4:
      _5, _6 = True, 1
    else:
      _5, _6 = False, _0
    _2, _3 = _5, _6
  if _2:
    _7 = _3
  else:
    _7 = 0
  return _7
