def forward(x: Tensor) -> NoneType:
  print(x)
  print("x", x, 1, 2.5, [1, 2], True, None)
  print()
  return None
