def forward(x: Tensor,
    n: int) -> str:
  print(torch.format("{} of {}", n, x))
  _0 = torch.format("{} and {}", n, torch.dim(x))
  return _0
