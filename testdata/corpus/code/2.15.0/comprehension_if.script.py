def forward(xs: List[int]) -> Tuple[List[int], List[int]]:
  _0 = annotate(List[int], [])
  for x in range(4):
    _1 = torch.append(_0, x)
  _2 = annotate(List[int], [])
  _3 = ops.prim.min([9223372036854775807, torch.len(xs)])
  for i in range(_3):
    x0 = xs[i]
    _4 = torch.append(_2, torch.add(i, x0))
  return (_0, _2)
