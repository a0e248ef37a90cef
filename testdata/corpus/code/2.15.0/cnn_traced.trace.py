def forward(self,
    x: Tensor) -> Tensor:
  fc = self.fc
  drop = self.drop
  pool = self.pool
  conv2 = self.conv2
  bn1 = self.bn1
  conv1 = self.conv1
  input = torch.relu((bn1).forward((conv1).forward(x, ), ))
  _0 = (pool).forward((conv2).forward(input, ), )
  input0 = torch.flatten(_0, 1)
  _1 = (fc).forward((drop).forward(input0, ), )
  return torch.log_softmax(_1, 1)
