def forward(x: Tensor,
    y: Tensor) -> Tensor:
  _0 = torch.add_(x, 1)
  _1 = torch.mul(torch.add(torch.exp(y), torch.log(y)), torch.add(torch.sin(x), torch.cos(x)))
  return torch.add(_0, _1)
