def forward(self,
    input: Tensor) -> Tensor:
  _0 = __torch__.torch.nn.functional.adaptive_avg_pool2d
  return _0(input, [1, 1], )
