"""Pickles that CPython writes, and what they hold as JSON.

    pickles.py FOLDER COUNT

Each pickle has a file N.pickle, and one of JSON beside it: what JSON lacks is null, bytes are text
as far as they are UTF-8, a key that is a tuple is "(tuple)". The same numbers on any machine.
"""

import json
import math
import pickle
import pickletools
import random
import sys
from pathlib import Path

TEXTS = ["", "a", "device_traces", "é中😀", 'quote " \\ \n', "\u0000", "x" * 300, "segments"]
NUMBERS = [0, 1, -1, 255, 256, 65535, 65536, -129, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.5, -0.0, 1e300, 5e-324, 0.1, math.inf, math.nan, -1.5e-9]


def value(random, depth, known, protocol):
    """Some value, perhaps one that is there already: the pickle refers to it."""
    if known and random.random() < 0.2:
        return random.choice(known)
    kind = random.randrange(7 if depth > 4 else 10)
    if kind == 0:
        return random.choice([None, True, False])
    if kind in (1, 2):
        wide = random.getrandbits(random.choice([7, 15, 31, 62, 63, 64, 90, 2040]))
        return random.choice([*NUMBERS, wide, -wide])
    if kind == 3:
        return random.choice([*DOUBLES, random.random() * 10 ** random.randrange(-20, 20)])
    if kind in (4, 5):
        return random.choice(TEXTS) + random.choice(["", str(random.randrange(9))])
    if kind == 6:
        # Older protocols call a function to make bytes.
        return random.randbytes(random.randrange(6)) if protocol > 2 else None
    items = [value(random, depth + 1, known, protocol) for _ in range(random.randrange(6))]
    if kind == 7:
        made = items
    elif kind == 8:
        made = tuple(items)
    else:
        made = {key(random, place): item for place, item in enumerate(items)}
    known.append(made)
    return made


def key(random, place):
    """A key like no other of the dict, as text neither."""
    words = [f"k{place}{random.choice(TEXTS)}", place + 2, -place - 1]
    return random.choice([*words, (place,)] if place == 0 else words)


def plain(of):
    """What the JSON of a value is made of."""
    if isinstance(of, bool) or of is None or isinstance(of, str):
        return of
    if isinstance(of, int):
        return of if -(2**63) <= of < 2**63 else None
    if isinstance(of, float):
        return of if math.isfinite(of) else None
    if isinstance(of, bytes):
        return of.decode("utf-8", "replace")
    if isinstance(of, dict):
        return {"(tuple)" if isinstance(key, tuple) else str(key): plain(of[key]) for key in of}
    return [plain(item) for item in of]


def main():
    """Write COUNT pickles into FOLDER."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    for number in range(count):
        chance = random.Random(number)  # noqa: S311
        protocol = chance.choice([2, 3, 4, 5])
        made = value(chance, 0, [], protocol)
        written = pickle.dumps(made, protocol)
        if chance.random() < 0.3:
            # Without what is remembered and never recalled.
            written = pickletools.optimize(written)
        (folder / f"{number}.pickle").write_bytes(written)
        (folder / f"{number}.json").write_text(json.dumps(plain(made)))


if __name__ == "__main__":
    main()
