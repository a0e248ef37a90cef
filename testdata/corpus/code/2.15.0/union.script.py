def forward(x: Union[float, int, str]) -> int:
  _0 = isinstance(x, int)
  if _0:
    _1 = unchecked_cast(int, x)
  else:
    x0 = unchecked_cast(Union[float, str], x)
    _2 = isinstance(x0, str)
    if _2:
      x1 = unchecked_cast(str, x0)
      _3 = torch.len(x1)
    else:
      _3 = 0
    _1 = _3
  return _1
