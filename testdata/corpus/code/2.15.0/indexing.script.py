def forward(x: Tensor,
    i: int,
    m: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
  _0 = torch.select(x, 0, 0)
  _1 = torch.select(torch.select(x, 0, i), 0, 1)
  _2 = torch.select(torch.slice(x), 1, 1)
  _3 = torch.slice(x, 0, 1, 3)
  _4 = torch.unsqueeze(torch.slice(x, 0, None, None, 2), 1)
  _5 = torch.select(x, -1, 0)
  _6 = torch.index(x, annotate(List[Optional[Tensor]], [m]))
  _7 = annotate(List[Optional[Tensor]], [torch.gt(m, 0)])
  _8 = torch.index(x, _7)
  _9 = torch.select(x, 0, -1)
  _10 = torch.slice(torch.slice(x, 0, 1), 1, i)
  _11 = (_0, _1, _2, _3, _4, _5, _6, _8, _9, _10, torch.unsqueeze(x, 0))
  return _11
