def forward() -> Tuple[List[Tensor], Dict[str, List[int]], List[Tuple[int, Tensor]], List[Optional[Tensor]]]:
  a = annotate(List[Tensor], [])
  b = annotate(Dict[str, List[int]], {})
  c = annotate(List[Tuple[int, Tensor]], [])
  d = annotate(List[Optional[Tensor]], [])
  return (a, b, c, d)
