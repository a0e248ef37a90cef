def forward(x: Tensor) -> Tensor:
  a = __torch__.helper(__torch__.helper(x, 1, ), 2, )
  _0 = __torch__.helper(a, torch.dim(__torch__.helper(x, 3, )), )
  return _0
