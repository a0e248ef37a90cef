def forward(self,
    x: Tensor) -> Tuple[Tensor, Tensor]:
  norm = self.norm
  attention = self.attention
  _0, _1, = (attention).forward(x, )
  input = torch.add(x, _0)
  return ((norm).forward(input, ), _1)
