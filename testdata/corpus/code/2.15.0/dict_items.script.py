def forward(d: Dict[str, int]) -> int:
  _0 = torch.items(d)
  total = 0
  for _1 in range(torch.len(_0)):
    k, v, = _0[_1]
    total0 = torch.add(total, torch.add(v, torch.len(k)))
    total = total0
  _2 = torch.keys(d)
  total1 = total
  for _3 in range(torch.len(_2)):
    k0 = _2[_3]
    total1 = torch.add(total1, d[k0])
  return total1
