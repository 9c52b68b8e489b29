"""What a role's sampler did, counted for the metrics of an iteration."""

from __future__ import annotations

import dataclasses

# A pass of five tokens is estimated at 1.26 to 1.35 times one of one where few rows are left: compiled for TPUs, see
# docs/log/2026-11-28.md.
LEAST = 0.25
TRIED = 200


@dataclasses.dataclass
class Tally:
    """Counts since the last `close`, and whether drafts are made still."""

    passes: int = 0  # of a row that writes with drafts: each writes a token
    accepted: int = 0  # tokens beyond these
    off: bool = False  # drafts were not worth a pass that is longer for them
    computed: int = 0  # places for tokens of prompts and observations that were computed
    held: int = 0  # those that held a token

    def close(self, count: int) -> dict[str, float]:
        """Return the metrics of what was counted, and count anew.

        `sampler/accepted` is a share of the drafted tokens, `count` a pass. Below `LEAST` tokens a pass, in at least
        `TRIED` since the last call, there are no drafts any more.
        """
        metrics = {}
        if self.passes:
            metrics["sampler/accepted"] = self.accepted / (count * self.passes)
        if self.computed:
            metrics["sampler/padding"] = 1 - self.held / self.computed
        self.off |= self.passes >= TRIED and self.accepted < LEAST * self.passes
        self.passes = self.accepted = self.computed = self.held = 0
        return metrics
