def forward(x: Tensor) -> Tuple[List[Device], Device, Tensor]:
  _0 = [torch.device("cpu"), ops.prim.device(x)]
  _1 = (_0, torch.device("cuda", 1), torch.to(x, torch.device("meta")))
  return _1
