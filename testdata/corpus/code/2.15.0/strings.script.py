def forward() -> Tuple[str, str, str, str]:
  _0 = ("plain", "quotes \' and \" and \\", "line\nbreak\ttab\r\a\b\f\v", "\001\177")
  return _0
