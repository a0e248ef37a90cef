# A test of a pattern library.
EXPECTED = '\n  graph(%x.1 : Tensor):\n    %2 : str = prim::Constant[value="it\'s \\"so\\"\\n"]()\n    %3 : Tensor = aten::neg(%x.1)\n    return (%3)\n  '
PATTERN = """graph(%x:Tensor, %dim:int):
        %out = a::a(%x, %dim) return (%out)"""
LINES = ("graph(%a : Tensor,\n"
         "      %b : Tensor):\n"
         '  %c : Tensor = aten::mul(%a, %b)\n'
         "  return (%c)\n")
ONE = "graph(%v): %w = my::op(%v) return (%w)"


def test_nothing():
    assert str(f.graph) == EXPECTED
