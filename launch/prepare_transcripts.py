"""`spicejax transcripts`: python launch/prepare_transcripts.py --help"""

import sys

from spicejax.__main__ import main

if __name__ == "__main__":
    sys.exit(main("transcripts"))
