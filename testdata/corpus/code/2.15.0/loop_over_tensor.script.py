def forward(x: Tensor) -> float:
  total = 0.
  for _0 in range(torch.len(x)):
    row = torch.select(x, 0, _0)
    total0 = torch.add(total, float(torch.sum(row)))
    total = total0
  return total
