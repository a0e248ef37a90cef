def forward(x: Tensor) -> Tensor:
  _0 = __torch__.torch.nn.functional.layer_norm
  _1 = __torch__.torch.nn.functional.dropout(x, 0.5, True, False, )
  _2 = __torch__.torch.nn.functional.relu(_1, False, )
  _3 = _0(x, [3], None, None, 1.0000000000000001e-05, )
  _4 = torch.add(torch.add(_2, _3), torch.gelu(x))
  return _4
