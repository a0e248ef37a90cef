def forward(x: Tensor) -> Tensor:
  y = torch.to(x, 7)
  z = torch.to(y, torch.device("cpu"))
  w = torch.to(z, torch.device("cpu"), 3)
  return torch.to(w, x)
