def forward(x: Tensor) -> Tensor:
  torch.manual_seed(3)
  _0 = torch.add(torch.rand([2, 3]), torch.randn_like(x))
  _1 = torch.add(_0, torch.to(torch.randint(0, 5, [2]), 6))
  return torch.add(_1, torch.randperm(4))
