"""`spicejax prepare`: python launch/prepare_corpus.py --help"""

import sys

from spicejax.__main__ import main

if __name__ == "__main__":
    sys.exit(main("prepare"))
