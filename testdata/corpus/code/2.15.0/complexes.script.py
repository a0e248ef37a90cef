def forward(x: Tensor) -> Tensor:
  _0 = torch.add(torch.mul(x, 2.+3.j), 0.+1.5j)
  return _0
