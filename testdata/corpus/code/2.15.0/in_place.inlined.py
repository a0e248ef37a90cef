def forward(x: Tensor) -> Tensor:
  _0 = torch.mul_(torch.add_(x, 1), 2)
  _1 = torch.zero_(x)
  _2 = torch.select(x, 0, 0)
  _3 = torch.tensor(5, dtype=ops.prim.dtype(_2), device=ops.prim.device(_2))
  _4 = torch.copy_(_2, _3)
  _5 = torch.add_(torch.slice(x, 0, 1, 3), 1)
  return x
