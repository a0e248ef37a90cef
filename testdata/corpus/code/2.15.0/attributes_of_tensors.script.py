def forward(x: Tensor) -> Tuple[int, Device, List[int], bool, Tensor, bool, Tensor, Tensor, int, int]:
  _0 = (ops.prim.dtype(x), ops.prim.device(x), torch.size(x), ops.prim.requires_grad(x), ops.prim.grad(x), ops.prim.is_cuda(x), torch.numpy_T(x), ops.prim.data(x), torch.dim(x), ops.prim.layout(x))
  return _0
