def forward(n: int,
    s: str) -> str:
  return torch.percentFormat("%d %s", (n, s))
