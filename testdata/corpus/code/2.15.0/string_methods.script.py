def forward(s: str) -> Tuple[str, int, bool, str]:
  parts = torch.split(s, ",")
  _0 = torch.add(torch.strip(torch.upper(s)), s[0])
  _1 = torch.add(torch.add(_0, torch.slice(s, 1, 3)), torch.replace(s, "a", "b"))
  _2 = (_1, torch.len(s), torch.startswith(s, "x"), torch.join("", parts))
  return _2
