def forward(n: int,
    step: __torch__.code_flow.Step) -> List[__torch__.code_flow.Step]:
  steps = annotate(List[__torch__.code_flow.Step], [step, step])
  if torch.gt((step).step(n, ), 0):
    _0 = steps
  else:
    _1 = __torch__.code_flow.Counter.__new__(__torch__.code_flow.Counter)
    _2 = (_1).__init__(n, )
    _3 = annotate(List[__torch__.code_flow.Step], [_1])
    _0 = _3
  return _0
