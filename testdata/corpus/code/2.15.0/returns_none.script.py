def forward(x: Optional[Tensor]) -> Optional[Tensor]:
  return None
