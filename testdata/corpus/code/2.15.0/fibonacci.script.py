def forward(n: int) -> int:
  a = 0
  b = 1
  for _0 in range(n):
    a, b = b, torch.add(a, b)
  return a
