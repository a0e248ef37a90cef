def forward(x: Tensor,
    n: int) -> Tuple[List[int], List[Tensor], List[int], List[Optional[int]], List[List[int]], List[Tensor]]:
  a = [1, 2, n]
  b = [x, x]
  d = annotate(List[Optional[int]], [1, None])
  e = [[1], [2, n]]
  c = [3]
  f = [x]
  torch.extend(f, b)
  return (a, b, c, d, e, f)
