"""How LLVM's lit runs the tests of this folder; see lit.cfg.py.

`FAIL[n]:` lines become a test of the exit status, `snapshot` a comparison with the block in the file. Texts in PyTorch's
check dialect go to `jitopt filecheck`, all others to LLVM's FileCheck.
"""
import glob
import os
import re
import shutil
import subprocess

import lit.formats
import lit.Test

root = os.path.dirname(os.path.abspath(__file__))
jitopt = os.environ.get("JITOPT") or os.path.join(root, "..", "target", "debug", "jitopt")
found = sorted(glob.glob("/usr/bin/FileCheck-*") + glob.glob("/usr/lib/llvm-*/bin/FileCheck"))
filecheck = shutil.which("FileCheck") or (found[-1] if found else None)
# What only our own tools can check: an escape in a pattern, and `jitopt filecheck` as the checker.
OURS = {"colours.ir": "LLVM's patterns have no \\x1b", "filecheck_subcommand.ir": "is about jitopt filecheck"}
LEADER = r"\s*(?:#|//|;)\s*"
SHELL = """
export LC_ALL=C.UTF-8
jitopt() { '%(jitopt)s' "$@"; }
not() { if [[ $1 == --code=* ]]; then local c=${1#--code=}; shift; "$@"; [ $? = $c ]; else ! "$@"; fi; }
filecheck() { case " $* " in *' --pytorch '*) jitopt filecheck "$@";; *) '%(filecheck)s' "$@";; esac; }
FileCheck() { filecheck "$@"; }
"""


def commands(text):
    """(expected status, command) of each RUN and FAIL line; -1 is any failure.

    Continuations are joined."""
    joined = re.sub(r"\\\n" + LEADER + r"(?:RUN|FAIL(?:\[\d+\])?):", " ", text)
    for line in joined.splitlines():
        m = re.match(LEADER + r"(RUN|FAIL(?:\[(\d+)\])?):[ \t]*(.*)", line)
        if m:
            yield (0 if m.group(1) == "RUN" else int(m.group(2) or -1)), m.group(3)


def blocks(text):
    """The snapshot blocks of a file, in order."""
    bodies = re.findall(r"(?:#|//|;) SNAPSHOT:\n((?:\s*(?:#|//|;) \|[^\n]*\n)*)", text)
    return ["\n".join(re.sub(r"^\s*(?:#|//|;) \| ?", "", line) for line in body.splitlines()) for body in bodies]


def tool_position(command):
    """Which part of a pipe is the tool under test; a checker where there is none."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", command)
    parts = [part.split() for part in bare.split("|")]
    return next((i for i, part in enumerate(parts) if "jitopt" in part or "not" in part[:1]), 0)


class Format(lit.formats.FileBasedTest):
    def execute(self, test, lit_config):
        path = test.getSourcePath()
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        why = OURS.get(os.path.basename(path)) or ("" if any(commands(text)) else "no RUN line")
        if why:
            return lit.Test.UNSUPPORTED, why
        ok, log = self.run(path, text, test.getExecPath() + ".dir")
        if re.search("^" + LEADER + "XFAIL:", text, re.M):
            return (lit.Test.XPASS if ok else lit.Test.XFAIL), log
        return (lit.Test.PASS if ok else lit.Test.FAIL), log

    def run(self, path, text, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        names = {"%s": path, "%S": os.path.dirname(path), "%t": os.path.join(folder, "t"), "%T": folder, "%%": "%"}
        shots = iter(blocks(text))
        for status, command in commands(text):
            command = re.sub(r"%(?:%|[sStT](?![A-Za-z0-9_]))", lambda m: names[m.group()], command)
            is_shot = re.search(r"\|\s*snapshot\b", command)
            command = re.sub(r"\|\s*snapshot\b", "| cat > '%s/shot'" % folder, command)
            ok, log = self.shell(status, command, folder)
            if ok and is_shot:
                ok, log = self.compare(folder + "/shot", next(shots, ""), names)
            if not ok:
                return False, command + "\n" + log
        return True, ""

    def compare(self, shot, wanted, names):
        with open(shot, encoding="utf-8", errors="surrogateescape") as file:
            got = file.read()
        for name in ("%t", "%T", "%s", "%S"):
            got = got.replace(names[name], name)
        trimmed = [[line.rstrip() for line in side.strip("\n").splitlines()] for side in (got, wanted)]
        return trimmed[0] == trimmed[1], "the snapshot differs\n" + got

    def shell(self, status, command, folder):
        tool = tool_position(command)
        want = {0: "= 0", -1: "!= 0"}.get(status, "= %d" % status)
        # Of a line that must fail, the tool under test fails and the checkers behind it hold.
        script = SHELL % {"jitopt": os.path.abspath(jitopt), "filecheck": filecheck} + command + "\n"
        script += "S=(${PIPESTATUS[@]})\n[ ${S[%d]} %s ] || exit 1\n" % (tool, want)
        script += "for i in ${!S[@]}; do [ $i = %d ] || [ ${S[$i]} = 0 ] || exit 1; done\n" % tool
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, timeout=60,
                              env={"PATH": os.environ["PATH"], "HOME": folder})
        return done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
