def forward(n: int) -> Tuple[int, int, Optional[__torch__.code_flow.Counter]]:
  many = annotate(List[__torch__.code_flow.Counter], [])
  for i in range(n):
    _0 = __torch__.code_flow.Counter.__new__(__torch__.code_flow.Counter)
    _0.n = i
    _1 = torch.append(many, _0)
  _2 = __torch__.code_flow.Counter.__new__(__torch__.code_flow.Counter)
  _2.n = 1
  if torch.gt(n, 1):
    one : Optional[__torch__.code_flow.Counter] = many[0]
  else:
    one = None
  _3 = many[0]
  n0 = _3.n
  _3.n = torch.add(n0, 1)
  n1 = _3.n
  n2 = _2.n
  return (n1, n2, one)
