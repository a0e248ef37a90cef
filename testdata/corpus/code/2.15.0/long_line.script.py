def forward(a_rather_long_name: Tensor,
    another_rather_long_name: Tensor) -> Tensor:
  _0 = torch.add(a_rather_long_name, another_rather_long_name)
  _1 = torch.tanh(_0)
  _2 = torch.sub(another_rather_long_name, a_rather_long_name)
  return torch.mul(_1, _2)
