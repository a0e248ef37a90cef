def forward() -> Tuple[str, List[str]]:
  return (CONSTANTS.c1, [CONSTANTS.c0, "a"])
