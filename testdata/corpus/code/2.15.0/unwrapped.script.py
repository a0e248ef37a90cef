def forward(x: Optional[int]) -> int:
  _0 = torch.add(torch._unwrap_optional(x), 1)
  return _0
