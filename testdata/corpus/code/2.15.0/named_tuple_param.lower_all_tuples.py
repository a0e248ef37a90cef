def forward(argument_0: Tensor,
    argument_1: int,
    x: Tensor) -> Tensor:
  if torch.gt(argument_1, 2):
    _0, _1 = torch.add(argument_0, argument_0), argument_1
  else:
    _0, _1 = x, 2
  return _0, _1
