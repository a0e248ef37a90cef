def forward(x: Tensor,
    n: int) -> Tensor:
  y = torch.zeros([n, n])
  _0 = torch.tensor(1., dtype=ops.prim.dtype(y), device=ops.prim.device(y))
  _1 = torch.index_put_(y, annotate(List[Optional[Tensor]], [x]), _0)
  return torch.add(y, 1, n), torch.size(y, 0), (torch.size(y))[1]
