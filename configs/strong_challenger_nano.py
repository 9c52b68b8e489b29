"""SPICE's Strong Challenger on the nano world: a policy that is ahead writes the questions, another learns to answer.

Command:   python launch/tpu_run.py --config=strong_challenger_nano --workdir=runs/strong
           1/ is SPICE as in spice_nano; in 2/ its last policy has the Challenger's seat, and the Reasoner starts anew.
           With real models: --config=spice_qwen0p5b seats.challenger=weights/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf,
           or spice_qwen4b seats.challenger=FOLDER of Qwen3-32B, as in the paper (section 3.1).
Hardware:  2 CPU cores, 2 GiB of memory
Cost:      3 minutes, and 1.6 the warm start (kept in runs/cache afterwards)
Expect:    held-out accuracy from 0.52 to 0.67, SPICE's own 0.64, not to be told apart (five seeds; docs/lab.md)
"""

import dataclasses

from spicejax.configs import spice_nano

SPICE = spice_nano.CONFIG
# No probes: today's Challenger is the one that is compared in them
ALONE = dataclasses.replace(
    SPICE,
    name="strong_challenger_nano",
    eval=dataclasses.replace(SPICE.eval, probe_documents=0),
    seats={"challenger": "stage:1"},
    from_stage=0,
)
CONFIG = (dataclasses.replace(SPICE, eval=ALONE.eval), ALONE)
