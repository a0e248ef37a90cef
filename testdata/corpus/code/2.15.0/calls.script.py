def forward(x: Tensor) -> Tensor:
  _0 = torch.add(__torch__.helper(x, 2, ), __torch__.helper(x, 3, ))
  return _0
