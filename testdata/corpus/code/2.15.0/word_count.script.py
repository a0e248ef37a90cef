def forward(text: str) -> Dict[str, int]:
  counts = annotate(Dict[str, int], {})
  _0 = torch.split(text, " ")
  for _1 in range(torch.len(_0)):
    word = _0[_1]
    if torch.__contains__(counts, word):
      torch._set_item(counts, word, torch.add(counts[word], 1))
    else:
      torch._set_item(counts, word, 1)
  return counts
