def forward(x: Tensor) -> Tuple[NoneType, List[float]]:
  return (None, annotate(List[float], []))
