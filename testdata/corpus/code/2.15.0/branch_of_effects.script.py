def forward(x: Tensor,
    b: bool) -> Tensor:
  if b:
    print("yes")
  else:
    print("no")
  if torch.__not__(b):
    _0 = torch.add_(x, 1)
  else:
    pass
  return x
