def forward(q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Optional[Tensor]) -> Tensor:
  _0 = torch.matmul(q, torch.transpose(k, -2, -1))
  s = torch.div(_0, torch.sqrt(torch.size(q, -1)))
  if torch.__isnot__(mask, None):
    mask0 = unchecked_cast(Tensor, mask)
    s1 = torch.masked_fill(s, torch.eq(mask0, 0), -1000000000.)
    s0 = s1
  else:
    s0 = s
  _1 = __torch__.torch.nn.functional.softmax(s0, -1, 3, None, )
  return torch.matmul(_1, v)
