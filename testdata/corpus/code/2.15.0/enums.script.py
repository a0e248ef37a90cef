def forward(c: __torch__.code_flow.Color) -> Tuple[bool, str, int, str]:
  _0 = torch.eq(c, __torch__.code_flow.Color.RED)
  return (_0, (c).name, (c).value, "BLUE")
