def forward(n: int) -> Union[int, str]:
  x: Union[int, str] = 0
  for i in range(n):
    if torch.gt(i, 2):
      x0 : Union[int, str] = "s"
    else:
      x0 = i
    x = x0
  return x
