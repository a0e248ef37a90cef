def forward(self,
    input: Tensor) -> Tensor:
  weight = self.weight
  bias = self.bias
  _0 = (self)._conv_forward(input, weight, bias, )
  return _0
