def forward(a: Tuple[int, Optional[Tensor]],
    b: Dict[str, Tuple[int, int]],
    c: List[Dict[int, List[float]]],
    d: Tuple[()],
    e: Optional[Dict[str, Optional[List[Tensor]]]]) -> Tuple[Tuple[int, Optional[Tensor]], Dict[str, Tuple[int, int]], List[Dict[int, List[float]]], Tuple[()], Optional[Dict[str, Optional[List[Tensor]]]]]:
  return (a, b, c, d, e)
