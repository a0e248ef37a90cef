def forward(self,
    x: Tensor,
    flag: bool) -> Tensor:
  if flag:
    _0 = (self).twice(x, )
  else:
    _0 = (self).once(x, )
  return _0
