"""Blanks the folders of Python files in archives: `/opt/x/site-packages/torch/f.py` becomes
`/-----/site-packages/torch/f.py`.

Usage: neutral_paths.py FILE…

PyTorch writes where each node of a model comes from, with the paths of the machine that wrote it.
The scripts here that write archives call `neutralise`. A path keeps its length, so that pickles,
positions in stack traces and stored entries stay as they are. Deflated entries are packed again,
and entries after them are aligned again, as PyTorch maps them into memory. A file that is no zip
archive is taken as one text. Needs only Python.
"""

import pathlib
import re
import struct
import sys
import zipfile
import zlib

HEAD = re.compile(rb"(?<![\w.:/-])/(?:[\w.-]+/)+?(?=site-packages/|[\w-]+\.py)")
ALIGNMENT = 64
HAS_DESCRIPTOR = 8


def blanked(text):
    """`text` with `-` for the folders of each path of a Python file, in the same length."""
    return HEAD.sub(lambda head: b"/" + b"-" * (len(head[0]) - 2) + b"/", text)


def repacked(data, method):
    """An entry as it is stored, the content blanked; checksum, size; `data` if no path is in it."""
    text = zlib.decompress(data, -15) if method == zipfile.ZIP_DEFLATED else data
    new = blanked(text)
    if new == text:
        return data, zlib.crc32(text), len(text)
    stored = new
    if method == zipfile.ZIP_DEFLATED:
        packer = zlib.compressobj(wbits=-15)
        stored = packer.compress(new) + packer.flush()
    return stored, zlib.crc32(new), len(new)


def aligned(extra, begin):
    """The extra field at `begin`, with padding of the length that aligns the data after it."""
    if extra[:2] != b"FB":
        return extra
    padding = -(begin + 4) % ALIGNMENT
    return struct.pack("<2sH", b"FB", padding) + b"Z" * padding


def rewritten(old, archive):
    """The bytes of `archive`, read from `old`, with blanked contents."""
    new, end, records = bytearray(), 0, {}
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        begin = entry.header_offset
        new += old[end:begin]
        name, extra = struct.unpack_from("<HH", old, begin + 26)
        field = begin + 30 + name
        data, end = field + extra, field + extra + entry.compress_size
        stored, checksum, size = repacked(old[data:end], entry.compress_type)
        facts = struct.pack("<III", checksum, len(stored), size)
        records[begin] = facts, len(new)
        header = bytearray(old[begin:field])
        padding = aligned(old[field:data], len(new) + len(header))
        header[28:30] = struct.pack("<H", len(padding))
        if not entry.flag_bits & HAS_DESCRIPTOR:
            header[14:26] = facts
        new += header + padding + stored
        if old[end : end + 4] == b"PK\7\x08":
            new += old[end : end + 4] + facts
            end += 16
    new += old[end : archive.start_dir]
    return bytes(new + directory(old, archive.start_dir, len(new), records))


def directory(old, begin, moved, records):
    """The central directory from `begin` on and what ends the archive, now at `moved`."""
    new, position = bytearray(old[begin:]), 0
    while new[position : position + 4] == b"PK\1\2":
        (offset,) = struct.unpack_from("<I", new, position + 42)
        facts, offset = records[offset]
        new[position + 16 : position + 28] = facts
        struct.pack_into("<I", new, position + 42, offset)
        position += 46 + sum(struct.unpack_from("<HHH", new, position + 28))
    if new[position : position + 4] == b"PK\6\6":
        struct.pack_into("<Q", new, position + 48, moved)
        struct.pack_into("<Q", new, position + 56 + 8, moved + position)
        position += 56 + 20
    struct.pack_into("<I", new, position + 16, moved)
    return new


def neutralise(path):
    """Blanks the paths in the file `path`; true if there were any."""
    path = pathlib.Path(path)
    old = path.read_bytes()
    new = rewritten(old, zipfile.ZipFile(path)) if zipfile.is_zipfile(path) else blanked(old)
    path.write_bytes(new)
    return new != old


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, "blanked" if neutralise(name) else "has no paths")
