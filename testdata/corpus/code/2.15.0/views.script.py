def forward(x: Tensor,
    n: int) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
  _0 = (torch.view(x, [-1, n]), torch.reshape(x, [n, 2]), torch.permute(x, [1, 0]), torch.transpose(x, 0, 1), torch.expand(x, [2, -1]), torch.squeeze(torch.unsqueeze(x, 0)), torch.flatten(x, 1))
  return _0
