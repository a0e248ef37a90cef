def forward(self,
    input: Tensor) -> Tensor:
  weight = self.weight
  input0 = torch._convolution(input, weight, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 2, False, False, True, True)
  return input0
