def forward(x: Tensor) -> Tensor:
  _0 = torch.arange(12., dtype=None, layout=None, device=torch.device("cpu"), pin_memory=False)
  _1 = torch.mul(x, torch.sum(torch.view(_0, [4, 3])))
  _2 = torch.full([3], 2., dtype=None, layout=None, device=torch.device("cpu"), pin_memory=False)
  _3 = torch.add(_1, _2)
  _4 = torch.ones([2, 3], dtype=None, layout=None, device=torch.device("cpu"), pin_memory=False)
  _5 = torch.eye(3, dtype=None, layout=None, device=torch.device("cpu"), pin_memory=False)
  return torch.add(_3, torch.matmul(_4, _5))
