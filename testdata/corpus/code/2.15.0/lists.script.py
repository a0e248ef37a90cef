def forward(x: Tensor,
    n: int) -> Tuple[List[int], List[Tensor], List[int], List[Optional[int]], List[List[int]], List[Tensor]]:
  a = [1, 2, n]
  b = [x, x]
  c = annotate(List[int], [])
  d = annotate(List[Optional[int]], [1, None])
  e = [[1], [2, n]]
  f = annotate(List[Tensor], [])
  _0 = torch.append(c, 3)
  _1 = torch.append(f, x)
  torch.extend(f, b)
  return (a, b, c, d, e, f)
