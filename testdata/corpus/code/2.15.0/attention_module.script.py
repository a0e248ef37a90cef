def forward(self,
    x: Tensor,
    mask: Optional[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
  attention = self.attention
  _0 = (attention).forward(x, x, x, None, True, mask, True, False, )
  y, w, = _0
  norm = self.norm
  _1 = ((norm).forward(torch.add(x, y), ), w)
  return _1
