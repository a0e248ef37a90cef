def forward(x: Tensor,
    b: bool) -> Tensor:
  if b:
    x0 = torch.neg(x)
  else:
    x0 = x
  return x0
