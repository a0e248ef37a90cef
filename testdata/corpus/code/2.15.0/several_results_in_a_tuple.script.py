def forward(x: Tensor) -> Tuple[Tuple[Tensor, Tensor], Tuple[Tensor, Tensor], Tensor, Tensor]:
  _0, _1 = torch.topk(x, 2)
  _2 = (_0, _1)
  _3, _4 = torch.max(x, 1)
  _5 = (_2, (_3, _4), torch.sum(x, [0], True), torch.mean(x, [0, 1], True, dtype=7))
  return _5
