def forward(x: Tensor) -> Tensor:
  _0 = "this is a message of more than forty characters, which is not inlined"
  _1 = "another message of more than forty characters, which is not inlined"
  print(_0, x)
  print(_1, x)
  return x
