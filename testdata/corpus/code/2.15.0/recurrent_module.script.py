def forward(self,
    ids: Tensor) -> Tuple[Tensor, Tensor]:
  lstm = self.lstm
  embedding = self.embedding
  _0 = (lstm).forward__0((embedding).forward(ids, ), None, )
  out, _1, = _0
  h, c, = _1
  gru = self.gru
  _2 = (gru).forward(torch.select(out, 0, -1), torch.select(h, 0, 0), )
  return (_2, c)
