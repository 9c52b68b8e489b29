"""Honest programs at random from a seed: blocks of what Solvers write, each with numbers from the blocks before it."""

import random
import textwrap

# {a}, {b}, {c}: whole numbers that an earlier block left, or new ones; {k}: a small number; {w}, {v}: words; {x}: the
# variable of the block, plain data in the end.
_BLOCKS = [
    # numbers
    "{x} = ({a} * {k} + {b}) % 1000003 - {c} // {k}",
    "{x} = [{a} // -{k}, {a} % -{k}, -{a} % {k}, ({a} ^ {b}) & 65535, {a} | {k}, ~{c} >> 2, {k} << 5]",
    "{x} = round({a} / {k} + {b} * 0.37, 6)",
    "{x} = pow({a}, {k} + 5, 10007) if {a} > {b} else divmod({b}, {k})[1]",
    "{x} = sum(n * n for n in range({k} * 30) if n % {k} == {a} % {k}) + min({a}, {b}) - abs({c} - {a})",
    "{x} = [int(str({a})[::-1]), bin({b} % 512), hex({c}), float({k}).hex(), ({a}).bit_length(), len(str({b} ** 20))]",
    "import math\n{x} = [math.gcd({a}, {b}), math.isqrt({a}), math.comb({k} + 9, {k}), round(math.log({a} + 1), 9)]",
    "import math\n"
    "{x} = [round(math.atan2({a}, {b} + 1), 9), math.floor({a} / 7), math.prod([{k}, 3, {c}]), math.tau > 6]",
    "from fractions import Fraction\n"
    "{x} = str(sum((Fraction({a} % 97, n + {k}) for n in range(1, 6)), Fraction({b}, {k})))",
    "from decimal import Decimal, localcontext\nwith localcontext() as context:\n    context.prec = 10 + {k}\n"
    "    {x} = str(Decimal({a} + 1) / Decimal({b} + 3) + Decimal('0.{k}'))",
    # words
    "{x} = '{w} {v}'.title().replace('{w}'[0], str({k})) + '{v}'.center({k} + 12, '*')",
    "{x} = f'{{{a}:>12,}}|{{{b} / 3:.3f}}|{{{k}:05b}}|{{\"{w}\"!r:^10}}' % () if {k} else '{v}'",
    "{x} = sorted('{w} {v} {w}{k}'.split(), key=lambda word: (len(word), word), reverse={a} % 2 == 0)",
    "{x} = ''.join(chr((ord(one) - 97 + {k}) % 26 + 97) for one in '{w}{v}') + '{w}'.upper()[::-1]",
    "import re\n{x} = re.findall(r'([a-z]+)-(\\d+)', '{w}-{a} {v}-{b} x{k}') and re.sub(r'[aeiou]', '_', '{w}{v}')",
    "import re\n{x} = [found.group('n') for found in re.finditer(r'(?P<n>\\d{{1,2}})', '{w} {a} and {b}')]",
    "import textwrap\n{x} = textwrap.wrap('{w} {v} ' * {k} + '{w}', 10 + {k}) + [textwrap.shorten('{w} {v}', 9)]",
    "import json\n{x} = json.dumps(json.loads(json.dumps(dict({w}=[{a}, None, 1.5], {v}='\\u00e9'))), sort_keys=True)",
    "import string\n{x} = string.Template('$n of {w}').substitute(n={a}) + string.capwords('{v} {w}')",
    # lists, dicts, sets
    "{x} = [(n * {a} + {b}) % 101 for n in range(12)]\n{x}.sort(key=lambda n: (n % {k}, -n))\n{x} = {x}[1:-1:2]",
    "{x} = [each for row in [[{a} % 7, {k}], [{b} % 5], []] for each in row] + list(range({k}, -{k}, -2))",
    "{x} = list(zip('{w}', range({k}), [{a}, {b}, {c}])) + [any([{a} > {b}, 0]), all([{k}, 1])]",
    "counts = dict()\nfor one in '{w}{v}{w}': counts[one] = counts.get(one, 0) + {k}\n"
    "{x} = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:5]",
    "table = dict((n, n * {a} % 13) for n in range(9))\ntable.update([(3, {b})])\ntable.pop(5, None)\n"
    "{x} = [list(table.values()), max(table, key=table.get), sorted(table)[-{k}:]]",
    "one, other = set('{w}'), set('{v}')\n"
    "{x} = [sorted(one & other), sorted(one ^ other), len(one | other), one <= other]",
    "grid = [[(row * {k} + column) % 9 for column in range(4)] for row in range(4)]\n"
    "{x} = [sum(map(sum, grid)), list(map(list, zip(*grid)))[1], [grid[n][n] for n in range(4)]]",
    "first, *rest, last = [{a}, {b}, {c}, {k}]\n{x} = [last, rest, first] * 2\n{x}[1:3] = [len({x})]\ndel {x}[-1]",
    "from collections import Counter, OrderedDict, defaultdict, deque\nqueue = deque([{a}, {b}], maxlen=3)\n"
    "queue.extend([{k}, {c}])\nqueue.rotate(1)\n{x} = [list(queue), Counter('{w}{v}').most_common(1)[0][1]]",
    "from collections import namedtuple, ChainMap\nPoint = namedtuple('Point', 'x y')\n"
    "{x} = list(Point({a}, {b})._replace(y={k})) + [ChainMap(dict(a=1), dict(a={c}, b=2))['b']]",
    # libraries
    "import itertools\n{x} = [list(each) for each in itertools.combinations([{a}, {b}, {k}, {c}], 2)][:{k}]",
    "import itertools\n{x} = [[key, len(list(group))] for key, group in itertools.groupby('aab{w}bb')] + "
    "list(itertools.accumulate([{a}, {b}, {k}], max))",
    "import statistics\nvalues = [{a}, {b}, {c}, {k}, 5]\n"
    "{x} = [statistics.median(values), round(statistics.pstdev(values), 6), round(statistics.fmean(values), 6)]",
    "import datetime\nday = datetime.date(1900 + {a} % 150, 1 + {b} % 12, 1 + {c} % 28)\n"
    "{x} = [day.isoformat(), (day + datetime.timedelta(days={k} * 99)).strftime('%d %b %Y'), day.isocalendar()[1]]",
    "import datetime\nspan = datetime.timedelta(minutes={a}, seconds={b})\n"
    "{x} = [str(span), span.total_seconds() / {k}]",
    "import calendar\n{x} = [calendar.isleap({a}), calendar.day_name[{b} % 7], calendar.monthrange(1970 + {k}, 2)[1]]",
    "import bisect\nplaces = sorted([{a}, {b}, {c}, {k}])\nbisect.insort(places, {k} * 7)\n"
    "{x} = [bisect.bisect_left(places, {b}), places]",
    "import heapq\nheap = [({a} % 50, 'a'), ({b} % 50, 'b'), ({k}, 'c')]\nheapq.heapify(heap)\n"
    "heapq.heappush(heap, (3, '{w}'))\n{x} = [heapq.heappop(heap)[1] for _ in range(3)]",
    "import functools\n{x} = functools.reduce(lambda one, other: one * {k} + other, [{a}, {b}, {c}]) % 99991",
    "import functools, operator\nadd = functools.partial(operator.add, {a})\n"
    "{x} = [add({k}), sorted([{b}, {c}, {k}], key=functools.cmp_to_key(lambda one, other: other - one))]",
    "import random\nrandom.seed({a})\n"
    "{x} = [random.randint(1, {k} + 5), random.choice('{w}'), random.sample(range(40), 4)]",
    "import random\ndice = random.Random({b})\nplaces = list(range({k} + 3))\ndice.shuffle(places)\n"
    "{x} = [places, round(dice.gauss({a} % 10, 2), 9), dice.choices('ab', [1, {k}], k=4)]",
    "import hashlib, base64\n{x} = [hashlib.md5(b'{w}{a}').hexdigest(), base64.b32encode(b'{v}').decode()]",
    "import copy\none = dict(a=[{a}, {b}])\nother = copy.deepcopy(one)\nother['a'].append({k})\n"
    "{x} = [one['a'], other['a']]",
    # procedures
    "{x}, n = 0, {a} + 1\nwhile n != 1 and {x} < 300:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n    {x} += 1",
    "{x} = []\nfor n in range(2, 60):\n    for d in range(2, n):\n        if n % d == 0: break\n    else:\n"
    "        if n % {k} == 1: continue\n        {x}.append(n)",
    "def ways(n, *coins):\n    if n == 0: return 1\n    if n < 0 or not coins: return 0\n"
    "    return ways(n - coins[0], *coins) + ways(n, *coins[1:])\n{x} = ways({k} * 9, 10, 5, 2, 1)",
    "import functools\n@functools.lru_cache(None)\n"
    "def path(m, n): return 1 if 0 in (m, n) else path(m - 1, n) + path(m, n - 1)\n"
    "{x} = path({k} + 7, {a} % 9)",
    "def towers(n, one='a', other='b', third='c'):\n    return [] if not n else towers(n - 1, one, third, other) + "
    "[one + other] + towers(n - 1, third, other, one)\n{x} = towers(2 + {k} % 4)[-6:]",
    "def quick(found):\n    if len(found) < 2: return found\n    first, *rest = found\n"
    "    return quick([n for n in rest if n < first]) + [first] + quick([n for n in rest if n >= first])\n"
    "{x} = quick([{a}, {b}, {k}, {c}, 17, {a} // 2])",
    "def flat(found):\n    for each in found:\n        if isinstance(each, list): yield from flat(each)\n"
    "        else: yield each\n{x} = list(flat([{a}, [{b}, [[{k}], {c}]], []]))",
    "def running():\n    total = 0\n    while True:\n        got = yield total\n        if got is None: return\n"
    "        total += got\nsteps = running()\nnext(steps)\n{x} = [steps.send({a}), steps.send({k})]\nsteps.close()",
    "low, high = 0, {a} + 2\nwhile low < high:\n    middle = (low + high) // 2\n"
    "    if middle * middle < {a}: low = middle + 1\n    else: high = middle\n{x} = low",
    "match [{a} % 3, {k}]:\n    case [0, n]: {x} = ['none', n]\n    case [1, n] if n > 4: {x} = ['large', n]\n"
    "    case _: {x} = '{w}'",
    "{x} = [half for n in ({a}, {b}, {k}) if (half := n // 2) % 2] or (lambda *given, **named: len(given))({c}, z=1)",
    "try: {x} = [{a} // ({b} % 2), 'fine']\nexcept ZeroDivisionError as error: {x} = str(error)\n"
    "else: {x}.append({k})\nfinally: print('{w}')",
    "class Odd(ValueError): pass\ndef check(n):\n    if n % 2: raise Odd(n, '{w}')\n    return n\n{x} = []\n"
    "for n in ({a}, {b}, {k}):\n    try: {x}.append(check(n))\n"
    "    except ValueError as error: {x}.append(list(error.args))",
    "{x} = []\nfor made in (lambda: int('{w}'), lambda: [][{k}], lambda: dict()['{v}'], lambda: None + {a}):\n"
    "    try: made()\n    except (ValueError, LookupError, TypeError) as error: {x}.append(type(error).__name__)",
    "class Sum:\n    def __init__(self, *parts): self.parts = parts\n"
    "    def __add__(self, other): return Sum(*self.parts, "
    "*other.parts)\n    def __len__(self): return len(self.parts)\n    @property\n"
    "    def total(self): return sum(self.parts)\n"
    "both = Sum({a}, {k}) + Sum({b})\n{x} = [len(both), both.total, bool(Sum())]",
    "class Shape:\n    sides = 0\n    def area(self): return self.sides * {k}\n    def __repr__(self): "
    "return f'{{type(self).__name__}}({{self.area()}})'\nclass Square(Shape):\n    sides = 4\n"
    "    def area(self): return super().area() + {a}\n{x} = [repr(Shape()), str(Square()), issubclass(Square, Shape)]",
    "import dataclasses\n@dataclasses.dataclass(order=True, frozen=True)\nclass Item:\n    price: int\n"
    "    name: str = '{w}'\n"
    "{x} = [dataclasses.astuple(each) for each in sorted([Item({a}), Item({b}, '{v}'), Item({k})])]",
    "import contextlib, io\n"
    "with contextlib.redirect_stdout(io.StringIO()) as said: print({a}, '{w}', sep='-', end='.')\n"
    "{x} = said.getvalue()",
    "def outer():\n    count = {k}\n    def inner(step=1):\n        nonlocal count\n        count += step\n"
    "        return count\n"
    "    return inner\nstep = outer()\n{x} = [step(), step({a}), step(step={b})]",
]  # fmt: skip
_WORDS = (
    "river mountain copper lake engine harbour poem planet glass winter music village market bridge forest island"
).split()


def program(rng: random.Random) -> str:
    """One program: some blocks, then a list of what they left."""
    lines, whole, left = [], [], []
    for place in range(rng.randint(2, 6)):
        name, block = f"x{place}", rng.choice(_BLOCKS)
        given = {key: rng.choice(whole) if whole and rng.random() < 0.5 else rng.randint(1, 9999) for key in "abc"}
        w, v = rng.sample(_WORDS, 2)
        lines += block.format(x=name, k=rng.randint(2, 9), w=w, v=v, **given).splitlines()
        # whatever it left, a number of it for the blocks to come
        lines.append(
            f"n{place} = len(str({name})) * {rng.randint(1, 99)} + ({name} if type({name}) is int else 7) % 1009"
        )
        left.append(name)
        whole.append(f"n{place}")
    lines.append(f"return [{', '.join(left + whole)}]")
    return "def solution():\n" + textwrap.indent("\n".join(lines), "    ")


def programs(count: int, seed: int = 0) -> list[str]:
    """`count` different programs."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        found[program(rng)] = None
    return list(found)
