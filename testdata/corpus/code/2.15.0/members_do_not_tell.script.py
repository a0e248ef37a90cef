def forward() -> Tuple[Dict[str, Optional[int]], Dict[str, Union[int, str]], List[Union[float, int]]]:
  a = annotate(Dict[str, Optional[int]], {"a": 1, "b": None})
  b = annotate(Dict[str, Union[int, str]], {"a": 1, "b": "x"})
  c = annotate(List[Union[float, int]], [1, 2.5])
  return (a, b, c)
