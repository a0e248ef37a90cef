"""The overloads of other releases that two lists of schemas lack:
`src/ops/schemas-between.txt`.

    python merge_schemas.py OLD.txt NEW.txt RELEASE.txt... > schemas-between.txt

A list is the output of `sorted({str(s) for s in torch._C._jit_get_all_schemas()})` in a release,
one schema per line. 1.0 to 1.2 only have `_jit_get_schemas_for_operator(name)`, which prints schemas
as `name(int[] size) -> (Tensor)` without overload names; which arguments are written is taken from
the schema of the same name in OLD then.
"""

import re
import sys

# Operators of PyTorch's tests, and of other front ends.
LEFT_OUT = ("_test::", "_TorchScriptTesting::", "_caffe2::", "__caffe2::", "_aten::", "_prim::", "_quantized::", "_xnnpack::",
            "_c10_experimental::", "_dtensor::", "_nnapi::")
SPELT_AS_INT = r"\b(ScalarType|Layout|MemoryFormat|DeviceIndex|SymInt|QScheme)\b"


def parts(text):
    """Splits at commas outside brackets."""
    found, depth, part = [], 0, ""
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found, part = found + [part.strip()], ""
        else:
            part += c
    return found + ([part.strip()] if part.strip() else [])


def split(line):
    """Name, overload, arguments, returns."""
    match = re.match(r"([\w:]+)(\.\w*)?\((.*)\) -> (.*)$", line)
    return match and (match.group(1), match.group(2) or "", parts(match.group(3)), match.group(4))


def signature(line):
    """The name, and the argument types as printed in a graph."""
    name, _, arguments, _ = split(line)
    types = []
    for argument in arguments:
        if argument == "*":
            continue
        argument = re.sub(r"\((?:[\w>*|! -]+)\)", "", argument) if not argument.startswith("(") else argument
        kind = re.sub(r"\s+\w+(=.*)?$", "", argument)
        types.append(re.sub(SPELT_AS_INT, "int", re.sub(r"\[\d+\]", "[]", kind)))
    return name, tuple(types)


def spelt_today(line):
    """Converts the Python-style types of 1.0 to 1.2."""
    inner = r"((?:[^\[\]]|\[\])*)"
    for _ in range(4):
        for old, new in (("List", r"\1[]"), ("Optional", r"\1?"), ("Future", r"Future(\1)"), ("Tuple", r"(\1)"), ("Dict", r"Dict(\1)")):
            line = re.sub(old + r"\[" + inner + r"\]", new, line)
    return re.sub(r"\bstring\b", "str", re.sub(r"\bnumber\b", "Scalar", line))


def annotated(line, old):
    """Adds the annotations of writes that the lists of old releases lack."""
    name, overload, arguments, returns = split(line)
    writes = any("!" in argument for argument in arguments)
    if writes or overload or "." in line.split("(")[0]:
        return line
    told = {}
    for argument in old.get(name, []):
        match = re.match(r"(\S+)\(([a-z]!)\)(\S*) (\w+)", argument)
        if match:
            told[match.group(4)] = match.group(2)
    if re.search(r"[a-z0-9]_$", name):
        told.setdefault(arguments[0].split(" ")[1].split("=")[0], "a!")
    changed = []
    for argument in arguments:
        kind, _, rest = argument.partition(" ")
        alias = told.get(rest.split("=")[0], "e!" if rest == "out" else None)
        changed.append("{}({}) {}".format(kind, alias, rest) if alias and (kind.startswith("Tensor") or "[]" in kind) else argument)
    if changed == arguments:
        return line
    first = next(re.search(r"\(([a-z]!)\)", a).group(1) for a in changed if "!" in a)
    if returns in ("Tensor", "(Tensor)"):
        returns = "Tensor({})".format(first)
    return "{}({}) -> {}".format(name, ", ".join(changed), returns)


def main(old_path, new_path, *others):
    read = lambda path: [line for line in open(path).read().split("\n") if line]
    seen = {signature(line) for path in (old_path, new_path) for line in read(path) if split(line)}
    old = {}
    for line in read(old_path):
        if split(line):
            old.setdefault(split(line)[0], []).extend(split(line)[2])
    found = []
    for path in others:
        for line in map(spelt_today, read(path)):
            if not split(line) or line.startswith(LEFT_OUT) or signature(line) in seen:
                continue
            seen.add(signature(line))
            line = re.sub(r" -> \(([^ ,]+)(?: \w+)?\)$", r" -> \1", annotated(line, old))
            found.append(re.sub(r" -> None$", " -> NoneType", line))
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
