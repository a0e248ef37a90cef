def forward(self,
    x: Tensor,
    i: int,
    key: str) -> Tensor:
  many = self.many
  first : __torch__.code_modules.Layer = many[i]
  named = self.named
  second : __torch__.code_modules.Layer = named[key]
  _0 = (second).forward((first).forward(x, ), )
  return _0
