"""Programs as a Solver writes them for questions about a text: each takes a number, {n}, and returns plain data."""

import textwrap

_BODIES = [
    # arithmetic
    "price = 12.5; total = price * {n}; print(total); return round(total * 1.19, 2)",
    "return {n} ** 3 - 7 * {n} + 1, {n} // 3, -{n} % 7, {n} / 7, divmod({n}, 4)",
    "return str(3 ** (20 * {n}))[:30], len(str(2 ** (100 * {n})))",
    "return sum(k * k for k in range({n} * 100)), max(range({n} + 1)), abs(-{n}), pow(3, {n}, 1000007)",
    "import math; return [math.gcd({n}, 360), math.comb({n} + 5, 3), math.factorial({n}), math.isqrt({n} * 1000)]",
    "import math; return [math.sin({n}), math.log({n} + 1), math.exp(-{n}), math.hypot({n}, 4), math.pi * {n} ** 2]",
    "import cmath; z = cmath.sqrt(-{n}); return z.real, z.imag, abs(cmath.exp(1j * {n}))",
    "from fractions import Fraction; return Fraction({n}, 12) + Fraction(1, 3), float(Fraction({n}, 7))",
    "from fractions import Fraction as F; return sum((F(1, k) for k in range(1, {n} + 2)), F(0))",
    """
    from decimal import Decimal, ROUND_HALF_UP, getcontext
    getcontext().prec = 50
    rate = Decimal('0.0375')
    return (1000 * (1 + rate) ** {n}).quantize(Decimal('0.01'), ROUND_HALF_UP), Decimal({n}).sqrt()""",
    "import numbers; return isinstance({n}, numbers.Integral), int('{n}'), float('{n}.5'), bool({n}), bin({n})",
    "import operator, functools; return functools.reduce(operator.mul, range(1, {n} + 2))",
    # statistics and chance
    """
    import statistics as s
    values = [(7 * k) % 13 + {n} for k in range(20)]
    return s.mean(values), s.median(values), s.stdev(values), s.mode(values), s.quantiles(values)""",
    "import random; random.seed({n}); return random.randint(1, 6), random.random(), random.sample(range(50), 5)",
    "import random; r = random.Random({n}); x = list(range(9)); r.shuffle(x); return x, r.choice('abc'), r.gauss(0, 1)",
    """
    import random
    random.seed({n})
    inside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(5000))
    return 4 * inside / 5000""",
    "import secrets, os, uuid; return len(secrets.token_hex({n} + 1)), len(os.urandom({n})), uuid.uuid4().version",
    # dates
    """
    import datetime as d
    begun = d.date(1969, 7, 20)
    return str(begun + d.timedelta(days={n} * 37)), (d.date(2024, 2, 29) - begun).days, begun.strftime('%A')""",
    "from datetime import datetime, timedelta; return (datetime(2001, 1, 1) + timedelta(hours={n})).isoformat()",
    "from datetime import datetime; return datetime.strptime('{n} May 2020', '%d %B %Y').weekday() if {n} else None",
    "import datetime; return datetime.date.today().year > 2000, datetime.datetime.now().year > {n}",
    "import calendar; return calendar.isleap(1900 + {n}), calendar.monthrange(2000 + {n}, 2), calendar.month_name[5]",
    "import time; begun = time.time(); time.sleep(0.001); return time.time() > begun, time.gmtime({n} * 86400).tm_mday",
    "import time; return time.perf_counter() >= 0, time.process_time() >= 0, time.localtime({n}).tm_year >= 1969",
    # texts
    "import re; return re.findall(r'\\d+', 'In {n} of 27 cases, {n}8 were lost.'), re.sub('[aeiou]', '', 'statistics')",
    """
    text = 'the cat and the dog and the {n} birds'
    counts = {{}}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:3], text.title(), f'{{len(text):>5}}'""",
    "import string, textwrap; return textwrap.wrap(string.ascii_letters * 3, 20 + {n}), string.capwords('a b {n}')",
    "import json; return json.loads(json.dumps({{'a': [1, 2.5, None, {n}]}}))['a'], json.dumps({{'n': {n}}}, indent=1)",
    "import csv, io; rows = csv.DictReader(io.StringIO('a,b\\n1,{n}\\n3,4\\n')); return [row['b'] for row in rows]",
    "import unicodedata, difflib; return unicodedata.name('é'), difflib.SequenceMatcher(None, 'abc{n}', 'abd').ratio()",
    "import hashlib, base64, zlib; x = b'{n}' * 9; return hashlib.sha256(x).hexdigest(), base64.b64encode(x).decode(), "
    "zlib.crc32(x)",
    # structures
    "from collections import Counter, defaultdict, deque; return Counter('abca{n}').most_common(2), len(deque([1], 3))",
    "import itertools as i; return list(i.islice(i.permutations('abcd'), {n} % 20)), list(i.accumulate(range({n})))",
    "import heapq, bisect; x = [(k * 7) % 11 for k in range({n} + 2)]; heapq.heapify(x); "
    "return heapq.nsmallest(3, x), bisect.bisect(sorted(x), 5)",
    """
    import dataclasses, enum, typing
    class Kind(enum.Enum):
        A = {n}
    @dataclasses.dataclass
    class Item:
        name: str
        price: float = {n} * 1.5
        more: typing.Any = dataclasses.field(default_factory=list)
    return Item('x').price, Kind.A.value, Kind.A.name""",
    "import copy; a = {{'x': [{n}]}}; b = copy.deepcopy(a); b['x'].append(1); return a['x'], b['x'], sorted({{{n}}})",
    "import array, struct; return list(array.array('i', range({n}))), struct.unpack('<H', struct.pack('<H', {n}))",
    # procedures
    """
    import functools
    @functools.lru_cache(maxsize=None)
    def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
    return f({n} + 60)""",
    "import sys; sys.setrecursionlimit(5000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nreturn f(800 + {n})",
    "def primes(n): return [k for k in range(2, n) if all(k % d for d in range(2, int(k ** 0.5) + 1))]\n"
    "return primes({n} * 5), len(primes(1000))",
    """
    rows = [[(i * j + {n}) % 7 for j in range(5)] for i in range(5)]
    turned = list(map(list, zip(*rows)))
    product = [[sum(a * b for a, b in zip(row, column)) for column in rows] for row in turned]
    return product""",
    """
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if middle ** 3 < {n} else (low, middle)
    return round(low, 9)""",
    """
    try:
        x = 1 / ({n} % 2)
    except ZeroDivisionError as error:
        x = str(error)
    finally:
        print('done', {n})
    return x""",
    "best = [0] + [10 ** 9] * ({n} + 30)\nfor a in range(1, len(best)):\n    for c in (1, 5, 12):\n"
    "        if c <= a: best[a] = min(best[a], best[a - c] + 1)\nreturn best[-1]",
    # what is imported beside
    "import threading, queue, concurrent.futures; q = queue.Queue(); q.put({n})\nwith threading.Lock(): return q.get()",
    "import os, sys, platform, io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out: print({n})\n"
    "return out.getvalue(), os.path.join('a', 'b'), sys.maxsize > 0, platform.system(), os.cpu_count() > 0",
    "import logging, warnings; logging.warning('{n}'); warnings.warn('{n}'); return logging.getLogger('x').name",
    "import pathlib, tempfile, shutil, subprocess, socket, asyncio, multiprocessing, typing, abc, inspect; "
    "return pathlib.PurePath('a/{n}.txt').stem",
    "import ast, pickle, gc; gc.collect(); return ast.literal_eval('[{n}, 2]'), pickle.loads(pickle.dumps({n}))",
    "x = list(range(200000)); y = [str(each) for each in x]; del x; return len(''.join(y)) + {n}",
]  # fmt: skip
TEMPLATES = ["def solution():\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") for body in _BODIES]


def programs(each: int) -> list[str]:
    """Every template with `each` numbers."""
    return [template.format(n=n) for n in range(1, each + 1) for template in TEMPLATES]
