def forward(x: Tensor) -> Tensor:
  _0 = "dropout probability has to be between 0 and 1, but got {}"
  if torch.lt(0.5, 0.):
    _1 = True
  else:
    _1 = torch.gt(0.5, 1.)
  if _1:
    ops.prim.RaiseException(torch.format(_0, 0.5), "builtins.ValueError")
  else:
    pass
  if False:
    _2 = torch.dropout_(x, 0.5, True)
  else:
    _2 = torch.dropout(x, 0.5, True)
  if False:
    result = torch.relu_(_2)
  else:
    result = torch.relu(_2)
  _3 = torch.add(result, torch.layer_norm(x, [3]))
  return torch.add(_3, torch.gelu(x))
