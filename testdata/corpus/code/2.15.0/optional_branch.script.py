def forward(b: bool,
    x: Tensor) -> Optional[Tensor]:
  if b:
    y : Optional[Tensor] = x
  else:
    y = None
  return y
