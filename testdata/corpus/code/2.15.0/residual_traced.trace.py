def forward(self,
    x: Tensor) -> Tensor:
  layers = self.layers
  _1 = getattr(layers, "1")
  layers0 = self.layers
  _0 = getattr(layers0, "0")
  input = torch.add(x, (_0).forward(x, ))
  _2 = torch.add(input, (_1).forward(input, ))
  return _2
