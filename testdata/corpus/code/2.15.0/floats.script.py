def forward(x: Tensor) -> Tensor:
  _0 = torch.add(torch.mul(x, 1e-08), 0.10000000000000001)
  a = torch.add(torch.sub(_0, 20000000000), 1.5000000000000001e+300)
  b = torch.add(torch.mul(a, inf), -inf)
  _1 = torch.sub(torch.add(b, 3.1415926535897931), 0.33333333333333331)
  return torch.add(_1, -0.)
