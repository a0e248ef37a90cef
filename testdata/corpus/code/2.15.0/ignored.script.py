def forward(x: Tensor) -> Tensor:
  return ^from_python()(x, 2)
