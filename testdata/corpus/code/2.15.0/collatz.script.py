def forward(n: int) -> List[int]:
  seen = [n]
  n0 = n
  _0 = torch.ne(n, 1)
  while _0:
    if torch.eq(torch.remainder(n0, 2), 0):
      n1 = torch.floordiv(n0, 2)
    else:
      n1 = torch.add(torch.mul(3, n0), 1)
    _1 = torch.append(seen, n1)
    _0, n0 = torch.ne(n1, 1), n1
  return seen
