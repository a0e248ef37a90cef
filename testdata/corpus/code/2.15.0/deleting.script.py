def forward(d: Dict[str, int],
    xs: List[int]) -> Tuple[str, int]:
  torch.Delete(d, "a")
  torch.Delete(xs, 0)
  torch.update(d, {"k": 1})
  _0 = torch.setdefault(d, "x", 3)
  return torch.popitem(d)
