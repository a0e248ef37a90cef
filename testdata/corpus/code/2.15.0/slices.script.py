def forward(xs: List[int],
    s: str,
    t: Tuple[int, int, int]) -> Tuple[List[int], List[int], List[int], str, Tuple[int, int], Tuple[int, int], int]:
  _0 = (torch.slice(xs, None, None, 2), torch.slice(xs, None, 3), torch.slice(xs, -2), torch.slice(s), ((t)[0], (t)[1]), ((t)[1], (t)[2]), (t)[-1])
  return _0
