def forward(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
  a = torch.zeros([2, 3], dtype=6, layout=None, device=ops.prim.device(x))
  b = torch.full([2], 1.5)
  c = torch.ones_like(x, dtype=4)
  d = torch.empty([2, 2], dtype=None, layout=None, device=None, pin_memory=None, memory_format=0)
  return (a, b, c, d)
