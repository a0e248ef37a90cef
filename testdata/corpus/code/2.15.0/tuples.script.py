def forward(x: Tensor,
    n: int) -> Tuple[Tuple[Tensor, int], Tuple[Tensor], Tuple[Tensor, int, int], Tensor, int, Tensor, Tensor, int, Tuple[int, int], Tuple[()]]:
  a = (x, n)
  b = (x,)
  c = (x, n, 1)
  return (a, b, c, x, n, x, x, n, (n, 1), ())
