#!/usr/bin/env python3
"""Builds a wheel that carries the program, for Linux.

    python3 tools/wheel/build.py                  # builds the release binary, packs it into target/wheel
    python3 tools/wheel/build.py --binary PATH    # packs a binary that is built already
    python3 tools/wheel/build.py --try            # then uses it in a fresh environment

Needs Python 3.8 and nothing else. The wheel needs no Rust where it is installed. Its platform tag
names the oldest C library that has every symbol the binary uses.
"""

import argparse
import base64
import hashlib
import platform
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parent / "jitopt"
# Zip archives cannot say more than that; one date for all makes builds reproducible.
DATE = (1980, 1, 1, 0, 0, 0)


def version():
    """The version of the workspace."""
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE).group(1)


def platform_tag(binary):
    """`manylinux_2_34_x86_64`: the newest symbol version of the C library in the binary."""
    if not binary.startswith(b"\x7fELF"):
        sys.exit("error: expected a Linux binary, an ELF file")
    versions = {(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)}
    if not versions:
        sys.exit("error: the binary names no version of the C library")
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def files(binary, tag):
    """Names and contents of the wheel, without its record."""
    info = f"jitopt-{version()}.dist-info"
    readme = (ROOT / "README.md").read_text()
    metadata = (
        f"Metadata-Version: 2.1\nName: jitopt\nVersion: {version()}\n"
        "Summary: Pass toolkit for TorchScript IR: read, transform, explain, prove\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
    )
    yield "jitopt/bin/jitopt", binary
    for source in sorted(PACKAGE.glob("*.py")):
        yield f"jitopt/{source.name}", source.read_bytes()
    for licence in sorted(ROOT.glob("LICENSE*")):
        yield f"{info}/{licence.name}", licence.read_bytes()
    yield f"{info}/METADATA", (metadata + readme).encode()
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: jitopt\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()


def write(binary, folder):
    """Writes the wheel and returns its path."""
    tag = f"py3-none-{platform_tag(binary)}"
    path = folder / f"jitopt-{version()}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    record = f"jitopt-{version()}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files(binary, tag):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            add(wheel, name, content)
        add(wheel, record, "\n".join([*lines, f"{record},,", ""]).encode())
    return path


def add(wheel, name, content):
    """Adds a file; the program is executable."""
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if name.startswith("jitopt/bin/") else 0o100644) << 16
    wheel.writestr(entry, content)


def try_out(wheel):
    """Installs the wheel into a fresh environment without Rust in its path, and uses it."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        clean = {"PATH": str(Path(folder) / "bin"), "HOME": folder}
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True, env=clean)
        script = (
            "import jitopt, pathlib, subprocess\n"
            "a, b = pathlib.Path('a.ir'), pathlib.Path('b.ir')\n"
            "text = 'graph(%x : Float(2, 2)):\\n  %y : Float(2, 2) = aten::{}(%x)\\n  return (%y)\\n'\n"
            "a.write_text(text.format('tanh')), b.write_text(text.format('sigmoid'))\n"
            "same, other = jitopt.check(a, a), jitopt.check(a, b)\n"
            "assert same['verdict'] == 'same', same\n"
            "assert other['verdict'] == 'different' and other['class'] == 'operator', other\n"
            "assert jitopt.check(a, 'missing.pt')['verdict'] == 'refused'\n"
            "for name in ('two_layers.pt', 'two_layers.pt2'):\n"
            "    command = [jitopt.binary(), 'samples', name]\n"
            "    sample = subprocess.run(command, check=True, capture_output=True)\n"
            "    pathlib.Path(name).write_bytes(sample.stdout)\n"
            "moved = jitopt.check('two_layers.pt', 'two_layers.pt2')\n"
            "assert moved['verdict'] == 'same', moved\n"
        )
        subprocess.run([python, "-c", script], check=True, env=clean, cwd=folder)
        shown = [python, "-m", "jitopt", "--version"]
        print(subprocess.run(shown, check=True, env=clean, capture_output=True, text=True).stdout.strip(), "runs")


def main():
    """Builds, packs and tries, as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="a binary that is built already")
    parser.add_argument("--output", type=Path, default=ROOT / "target" / "wheel", help="folder of the wheel")
    parser.add_argument("--try", dest="tried", action="store_true", help="install it and run it")
    arguments = parser.parse_args()
    if arguments.binary is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "--package", "jitopt"], check=True, cwd=ROOT)
        arguments.binary = ROOT / "target" / "release" / "jitopt"
    wheel = write(arguments.binary.read_bytes(), arguments.output)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")
    if arguments.tried:
        try_out(wheel)


main()
