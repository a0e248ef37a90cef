def forward(xs: List[int]) -> Tuple[List[int], List[int]]:
  _0 = annotate(List[int], [])
  _1 = torch.append(_0, 0)
  _2 = torch.add(0, 1)
  _3 = torch.append(_0, _2)
  _4 = torch.add(_2, 1)
  _5 = torch.append(_0, _4)
  _6 = torch.append(_0, torch.add(_4, 1))
  _7 = annotate(List[int], [])
  _8 = ops.prim.min([9223372036854775807, torch.len(xs)])
  for i in range(_8):
    x = xs[i]
    _9 = torch.append(_7, torch.add(i, x))
  return (_0, _7)
