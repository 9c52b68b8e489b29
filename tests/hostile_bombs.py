"""Hostile programs that take memory or time where Python does not look: in C, in a few letters, in depth."""

from hostile import Hostile, _hostile


def _bomb(name: str, body: str, how: tuple[str, ...] = ("error", "timeout")) -> Hostile:
    return _hostile(name, body, kind="bombs", how=how)


ALL = [
    _bomb("a wide format", "return '%1000000000d' % 1"),
    _bomb("a wide format by a method", "return format(1.5, '>3000000000')"),
    _bomb("a wide text", "return 'a'.zfill(1 << 40)"),
    _bomb("digits without a limit", "import sys; sys.set_int_max_str_digits(0); return len(str(1 << 10 ** 8))"),
    _bomb("a text of digits", "return int('9' * 10 ** 6)", ("error",)),
    _bomb("an endless shift", "return 1 << (1 << 60)", ("error",)),
    _bomb("an endless fraction", "from fractions import Fraction; return Fraction('1e1000000000') > 1"),
    _bomb("an endless decimal", "from decimal import Decimal; return int(Decimal('1e999999999')) > 1"),
    _bomb(
        "a precise decimal",
        """
from decimal import Context, Decimal, MAX_PREC
return Context(prec=MAX_PREC).divide(Decimal(1), Decimal(3)) > 1""",
    ),
    _bomb("a large factorial", "import math; return math.factorial(10 ** 7) > 1", ("timeout", "error")),
    _bomb("a loop in C", "import itertools; return 1 in itertools.repeat(0)", ("timeout",)),
    _bomb("a loop in C over numbers", "return sum(range(10 ** 15))", ("timeout",)),
    _bomb("a product without an end", "import itertools; return len(list(itertools.product(range(99), repeat=9)))"),
    _bomb(
        "a deep chain",
        """
import itertools
it = iter(())
for _ in range(10 ** 5): it = itertools.chain(it)
return next(it)""",
        ("killed", "error"),
    ),
    _bomb(
        "a deep generator",
        """
def more(one): yield from one
it = iter([1])
for _ in range(10 ** 5): it = more(it)
return next(it) and None""",
        ("killed", "error", "value"),
    ),
    _bomb("a deep JSON", "import json; return json.loads('[' * 10 ** 6)", ("error",)),
    _bomb(
        "a deep pickle",
        """
import pickle
x = []
for _ in range(10 ** 5): x = [x]
return len(pickle.dumps(x))""",
        ("error", "killed"),
    ),
    _bomb("a pickle's memory", r"import pickle; return pickle.loads(b'Nr\xff\xff\xff\x7f.')", ("error", "value")),
    _bomb(
        "a pickle's promise", r"import pickle; return pickle.loads(b'\x80\x04\x8e' + (1 << 40).to_bytes(8, 'little'))"
    ),
    _bomb("a deep pattern", "import re; return re.compile('(' * 50000 + ')' * 50000)", ("error", "killed")),
    _bomb(
        "a wide pattern",
        "import re; re.compile('(?:' * 6 + 'a' + ('{{99}}' + ')' ) * 6 + '{{99}}')",
        ("error", "value", "timeout"),
    ),
    _bomb("many signs", "return eval('-' * 10 ** 6 + '1')", ("error", "killed")),
    _bomb("a tree of signs", "import ast; return ast.literal_eval('-' * 10 ** 6 + '1')", ("error", "killed")),
    _bomb(
        "a program that grows",
        "compile('(1 << 19 ** 8,) * 4 ** 7, ' * 99, '', 'eval'); return ''",
        ("error", "value", "timeout"),
    ),
    _bomb("equal hashes", "return len(dict.fromkeys(k * (2 ** 61 - 1) for k in range(10 ** 5)))", ("timeout",)),
    _bomb("a bomb of bz2", "import bz2; return len(bz2.decompress(bz2.compress(bytes(10 ** 6)) * 5000))"),
    _bomb("a bomb of gzip", "import gzip; return len(gzip.decompress(gzip.compress(bytes(10 ** 6)) * 5000))"),
    _bomb("a bomb of lzma", "import lzma; return len(lzma.decompress(lzma.compress(bytes(10 ** 6)) * 5000))"),
    _bomb(
        "a bomb of zlib",
        """
import zlib
part = zlib.compressobj(9, zlib.DEFLATED, -15)
data = part.compress(bytes(10 ** 6)) + part.flush(zlib.Z_FULL_FLUSH)
return len(zlib.decompressobj(-15).decompress(data * 5000))""",
    ),
    _bomb("letters that grow", r"import unicodedata; return len(unicodedata.normalize('NFKD', '\ufdfa' * 10 ** 7))"),
    _bomb("a replacement that grows", "return len(('ab' * 10 ** 4).replace('a', 'x' * 10 ** 6))", ("error",)),
    _bomb(
        "entities that grow",
        """
import xml.etree.ElementTree as tree
names = [chr(97 + k) for k in range(12)]
more = ''.join(f'<!ENTITY {{b}} "{{("&" + a + ";") * 10}}">' for a, b in zip(names, names[1:]))
return len(tree.fromstring(f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{{more}}]><x>&l;</x>').text)""",
    ),
    _bomb(
        "a query without an end",
        """
import sqlite3
more = 'with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n'
return sqlite3.connect(':memory:').execute(more).fetchone()""",
    ),
    _bomb("two locks", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", ("timeout",)),
    _bomb("a pipe to itself", "import os\nreturn os.read(os.pipe()[0], 1)", ("timeout",)),
    _bomb(
        "a watched memory",
        """
import tracemalloc
tracemalloc.start(10000)
x = [[k] for k in range(10 ** 7)]
return len(x)""",
    ),
    _bomb(
        "a sort that never ends",
        """
class Odd:
    def __lt__(self, other):
        while True: pass
return len(sorted([Odd(), Odd()]))""",
        ("timeout",),
    ),
]
