"""Are driftlaw's objectives the losses that others ship under the same names?

    pip install --no-deps --target DIR trl==1.16.0 verl==0.9.1 openrlhf==0.11.2 areal==1.0.4 \\
        accelerate datasets multiprocess dill xxhash colorlog tensordict orjson pyvers cloudpickle
    python benchmarks/peers.py --peers DIR            print the tables
    python benchmarks/peers.py --peers DIR --write    write results/peers.json and docs/peers.md too

Runs in driftlaw's environment: DIR is searched after it, so torch and transformers are driftlaw's.
Every peer's own function is called; what it is called with is in `peers/losses.py`, the pairs are in
`peers/cases.py`. Exit code 0 when everything was compared, 2 when DIR lacks a package.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

# Before anything imports torch: one thread, and the code of this checkout, installed or not.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from peers import advantages, cases, inputs, load, page  # noqa: E402
from record import machine  # noqa: E402

FORMAT = 1  # of the JSON file
RESULT = ROOT / "benchmarks" / "results" / "peers.json"
PAGE = ROOT / "docs" / "peers.md"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--peers", type=Path, required=True, metavar="DIR", help="folder that holds the peers"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write results/peers.json and the tables of docs/peers.md",
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    warnings.filterwarnings("ignore")  # the peers' own, about devices and deprecations
    try:
        packages = load.make_importable(given.peers)
    except load.MissingPeers as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    content = compare(packages)
    print(page.text(content))
    if given.write:
        RESULT.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        page.rewrite(PAGE, content)
    return 0


def compare(packages: dict[str, str]) -> dict[str, Any]:
    """Everything that is written. No dates: two runs of the same code give the same bytes."""
    long = inputs.long_batch()
    summed = ((long.logp - long.mu) * long.mask).sum(1)
    return {
        "format": FORMAT,
        "machine": machine(),
        "packages": packages,
        "batches": {
            "responses": inputs.GROUPS * inputs.GROUP_SIZE,
            "group_size": inputs.GROUP_SIZE,
            "tokens": inputs.TOKENS,
            "l_max": inputs.L_MAX,
            "scales": list(inputs.SCALES),
            "seeds": list(inputs.SEEDS),
            "long_tokens": int(long.mask.sum(1)[0]),
            "long_scale": inputs.LONG_SCALE,
            "long_beyond": int((summed.abs() > 20).sum()),
        },
        "aligned": [pair.measure() for pair in cases.aligned()],
        "long_responses": [pair.measure() for pair in cases.long_responses()],
        "defaults": [pair.measure() for pair in cases.defaults()],
        "advantages": advantages.measure(),
        "not_compared": [list(row) for row in cases.NOT_COMPARED],
    }


if __name__ == "__main__":
    sys.exit(main())
