def forward(x: Tensor) -> NoneType:
  _0 = torch.__round_to_zero_floordiv(9223372036854775807, 8)
  _1 = torch.sub(9223372036854775807, torch.mul(_0, 8))
  for _2 in range(_0):
    print(x)
    print(x)
    print(x)
    print(x)
    print(x)
    print(x)
    print(x)
    print(x)
  for _3 in range(_1):
    print(x)
  return None
