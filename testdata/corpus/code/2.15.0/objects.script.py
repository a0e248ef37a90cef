def forward(n: int) -> int:
  c = __torch__.code_flow.Counter.__new__(__torch__.code_flow.Counter)
  _0 = (c).__init__(n, )
  _1 = (c).step(2, )
  c.n = 5
  _2 = (c).step(3, )
  n0 = c.n
  return torch.add(_2, n0)
