"""A data set of TensorFlow Datasets that is built here."""

import pytest


@pytest.fixture
def tfds_set(tmp_path, monkeypatch):
    """Return build(name, features, rows, file_format): what the library then loads by that name."""
    tfds = pytest.importorskip("tensorflow_datasets", reason="the tfds extra is not installed")
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path / "tfds"))

    def build(name, features, rows, file_format):
        class BuiltHere(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            __module__ = "built_here"  # in a package it would need importlib_resources, which TFDS does not install
            VERSION = tfds.core.Version("1.0.0")

            def _info(self):
                return tfds.core.DatasetInfo(
                    builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
                )

            def _split_generators(self, dl_manager):
                return {"train": enumerate(rows)}

            def _generate_examples(self): ...

        BuiltHere.name = name
        BuiltHere(data_dir=tmp_path / "tfds", file_format=file_format).download_and_prepare()

    return build
