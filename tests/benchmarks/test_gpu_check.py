"""The check of a GPU, run on the CPU with a tiny model."""

from __future__ import annotations

import json

import pytest
import torch

from rods_env.benchmarks import gpu_check


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Of the command itself."""
    place = tmp_path_factory.mktemp("check") / "figures.json"
    threads = torch.get_num_threads()
    code = gpu_check.main(["--cpu", "--json", str(place)])
    assert torch.get_num_threads() == threads
    return {"code": code, **json.loads(place.read_text())}


def test_all_checks_hold(figures):
    code = figures.pop("code")
    assert gpu_check.failures(figures) == []
    assert code == 0
    assert figures["device"] == "cpu"
    assert figures["dtype"] == "float32"
    assert figures["exact_float32_most"] <= 1e-4
    assert figures["exact_most"] <= 1e-4
    assert figures["one_by_one_same"] == 1
    assert 0 < figures["return_mean"] < 1
    assert figures["zero_variance_share"] < 1
    assert figures["grad_norm"] > 0
    assert figures["changed"] > 0.1
    assert min(figures[name] for name in ("decode_tokens_per_s", "rollout_tokens_per_s", "memory_peak_gb")) > 0


def test_what_fails_is_said(figures):
    good = {key: value for key, value in figures.items() if key != "code"}
    bad = {
        "exact_float32_most": 2e-4, "exact_mean": 2e-4, "exact_most": 2e-4, "one_by_one_same": 0.0,
        "loss": float("nan"), "changed": 0.0, "zero_variance_share": 1.0, "minutes": 10.5,
    }  # fmt: skip
    for name, value in bad.items():
        assert len(gpu_check.failures({**good, name: value})) == 1, name
    rough = {**good, "dtype": "bfloat16", "exact_mean": 0.01, "exact_most": 0.2}
    assert gpu_check.failures(rough) == []
    assert len(gpu_check.failures({**rough, "exact_mean": 0.03, "exact_most": 0.6})) == 2


def test_without_a_gpu_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2
    assert capsys.readouterr().err == (
        "error: expected a GPU; torch finds none: run this where there is one, or with --cpu for a tiny try.\n"
    )
