def forward(x: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor], Tuple[Tuple[Tensor]]]:
  b = torch.add(x, 1)
  c = torch.add(x, 2)
  return (x, (b, c), ((x,),))
