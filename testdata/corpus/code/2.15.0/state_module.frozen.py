def forward(self,
    x: Tensor) -> Tensor:
  calls = self.calls
  self.calls = torch.add(calls, 1)
  history = self.history
  calls0 = self.calls
  _0 = torch.append(history, calls0)
  total = self.total
  _1 = torch.add_(total, x)
  last = self.last
  if torch.__isnot__(last, None):
    last0 = unchecked_cast(Tensor, last)
    x0 = torch.add(x, last0)
  else:
    x0 = x
  self.last = x0
  total0 = self.total
  return torch.add(total0, 1)
