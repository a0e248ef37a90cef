def forward() -> List[Any]:
  return annotate(List[Any], [1, "a", 2.])
