def forward(x: Tensor) -> List[List[float]]:
  a = annotate(List[List[float]], x.tolist())
  return a
