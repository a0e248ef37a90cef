def forward(a: Optional[List[int]]) -> List[int]:
  if torch.__is__(a, None):
    _0 = [1]
  else:
    _0 = unchecked_cast(List[int], a)
  return _0
