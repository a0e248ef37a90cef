def forward(x: Tensor) -> Tuple[Tensor, List[Tensor], Tensor]:
  a, b, = torch.chunk(x, 2)
  c = torch.split(a, 1, 1)
  d, e, f, = torch.unbind(b)
  return (a, c, torch.add(torch.add(d, e), f))
