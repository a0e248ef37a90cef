def forward(x: Tensor) -> Tensor:
  _0 = torch.sin(torch.log(torch.exp(torch.neg(x))))
  _1 = torch.abs(torch.relu(torch.tan(torch.cos(_0))))
  _2 = torch.sigmoid(torch.rsqrt(torch.sqrt(_1)))
  return torch.tanh(_2)
