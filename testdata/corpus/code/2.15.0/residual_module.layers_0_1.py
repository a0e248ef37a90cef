def forward(self,
    input: Tensor) -> Tensor:
  _0 = __torch__.torch.nn.functional.batch_norm
  _1 = (self)._check_input_dim(input, )
  training = self.training
  if training:
    num_batches_tracked = self.num_batches_tracked
    _2 = torch.add_(num_batches_tracked, 1)
  else:
    pass
  training0 = self.training
  if training0:
    bn_training = True
  else:
    bn_training = False
  running_mean = self.running_mean
  running_var = self.running_var
  weight = self.weight
  bias = self.bias
  _3 = _0(input, running_mean, running_var, weight, bias, bn_training, 0.10000000000000001, 1.0000000000000001e-05, )
  return _3
