def forward(b: bool) -> __torch__.code_flow.Color:
  if b:
    _0 = __torch__.code_flow.Color.RED
  else:
    _0 = __torch__.code_flow.Color.BLUE
  return _0
