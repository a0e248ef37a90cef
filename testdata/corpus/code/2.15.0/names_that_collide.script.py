def forward(x: Tensor,
    _0: Tensor,
    _1: int,
    self: Tensor,
    x_1: Tensor) -> Tuple[Tuple[Tensor, Tensor], List[Tensor]]:
  x0 = torch.add(x, _0)
  x1 = torch.add(x0, _1)
  _2 = (torch.add(x1, self), torch.sub(x1, x_1))
  _3 = (_2, [torch.mul(x1, 2), torch.mul(x1, 3)])
  return _3
