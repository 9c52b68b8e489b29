"""One index over several devices and processes: the same vectors, the same passages found."""

import json
import sys
import textwrap

import numpy as np
import processes
from tiny_models import write_encoder

from spicejax.retrieval import index

# argv: folder, mesh.data, mesh.fsdp, mesh.tensor, where the processes meet.
PROGRAM = textwrap.dedent(
    """
    import json, sys
    folder, *layout = sys.argv[1:5]
    meeting = [word.partition("=")[2] for word in sys.argv[5:]]
    from spicejax import hosts, sharding
    hosts.start(*(meeting and (meeting[0], int(meeting[1]), int(meeting[2]))))
    import numpy as np
    from spicejax.models.encoder import Style
    from spicejax.retrieval import encode, index, nearest, search
    mesh = sharding.make_mesh(sharding.MeshConfig(*map(int, layout)))
    sharding.connect(mesh)
    encoder = encode.load(f"{folder}/encoder", Style("mean", 20), mesh)
    built = index.build(f"{folder}/{'-'.join(layout)}", f"{folder}/corpus.jsonl", encoder, shard=7)
    queries = [built.passages[i].text for i in range(0, 23, 2)]
    print(json.dumps([[p.id for p in row] for row in search.in_graph(built, encoder, mesh)(queries, 1)]))
    # All scores are below zero, that of the rows which fill up the last device's part.
    vectors = np.abs(np.random.default_rng(0).normal(size=(23, 8))).astype(np.float32)
    for approximate in (False, True):
        print(json.dumps(nearest.in_graph(vectors, mesh, approximate=approximate)(-vectors, 9)))
    """
)


def test_devices_and_processes_change_nothing(tmp_path):
    write_encoder(tmp_path / "encoder")
    letters = np.random.default_rng(0).choice(list("abcdefghijkl   "), (23, 30))
    lines = (json.dumps({"id": f"d{i}", "text": "".join(row)}) for i, row in enumerate(letters))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    found, vectors = [], []
    for count, devices, layout in ((1, 1, (1, 1, 1)), (1, 8, (2, 2, 2)), (2, 2, (4, 1, 1))):
        started = processes.start([sys.executable, "-c", PROGRAM, tmp_path, *layout], count, devices=devices)
        for code, out, err in processes.finish(started):
            assert code == 0, err[-3000:]
            found.append([json.loads(line) for line in out.splitlines() if line.startswith("[[")])  # gloo speaks too
        vectors.append(index.load(tmp_path / "-".join(map(str, layout))).vectors())
    texts, exact, approximate = found[0]
    assert texts == [[f"d{i}"] for i in range(0, 23, 2)]
    assert exact == approximate and all(other == found[0] for other in found) and len(found) == 4
    for other in vectors[1:]:
        np.testing.assert_allclose(other, vectors[0], atol=1e-5)
