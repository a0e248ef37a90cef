def forward(x: Tensor) -> Tensor:
  x0 = x
  for _0 in range(4):
    x0 = torch.relu(x0)
  return x0
