def forward(n: int) -> Optional[int]:
  best: Optional[int] = None
  for i in range(n):
    if torch.eq(torch.remainder(i, 3), 2):
      best0 : Optional[int] = i
    else:
      best0 = best
    best = best0
  return best
