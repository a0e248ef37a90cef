"""Merges the outputs of `release_probe.py` in several releases into one file, one call per line.

    python merge_release_probes.py 1.3.1.json 1.6.0.json … > testdata/releases/calls.json

The results of a call are pairs of a release and its result, which holds up to the release of the
next pair.
"""

import json
import sys


def key(version):
    return [int(part) for part in version.split("+")[0].split(".")]


def main():
    probes = sorted((json.load(open(path)) for path in sys.argv[1:]), key=lambda probe: key(probe["release"]))
    lines = []
    for i, call in enumerate(probes[0]["calls"]):
        results = []
        for probe in probes:
            found = probe["calls"][i]["result"]
            # Compared as text, which distinguishes -0.0 from 0.0.
            if not results or json.dumps(results[-1][1]) != json.dumps(found):
                results.append([probe["release"].split("+")[0], found])
        del call["result"]
        call["results"] = results
        lines.append(json.dumps(call))
    releases = json.dumps([probe["release"].split("+")[0] for probe in probes])
    print('{"releases": %s, "calls": [\n%s\n]}' % (releases, ",\n".join(lines)))


main()
