def forward(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
  _0 = torch.where(torch.gt(x, 0), x, torch.zeros_like(x))
  _1 = torch.clamp(x, 0, 1)
  _2 = torch.clamp(x, 0.)
  _3 = torch.clamp(x, None, 3)
  _4 = torch.masked_fill(x, torch.gt(x, 1), 0.5)
  return (_0, _1, _2, _3, _4)
