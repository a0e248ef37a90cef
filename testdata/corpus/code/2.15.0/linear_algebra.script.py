def forward(x: Tensor,
    y: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
  _0 = (torch.matmul(x, y), torch.mm(x, y), torch.addmm(x, x, y, beta=2, alpha=3), torch.t(x), torch.bmm(x, y), torch.linear(x, y), torch.linear(x, y, x))
  return _0
