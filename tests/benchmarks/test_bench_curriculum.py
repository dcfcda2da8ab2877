"""The benchmark of curricula: its figures and what they are made of."""

from __future__ import annotations

from rods_env.benchmarks import curriculum


def test_all_figures_are_times(monkeypatch):
    monkeypatch.setattr(curriculum, "_TASKS", 2000)
    said = []
    figures = curriculum.run(quick=True, progress=said.append)
    assert list(figures) == ["frontier_pool_200_us", "frontier_stream_200_us", "fixed_200_us", "replay_200_us"]
    assert all(value > 0 for value in figures.values())
    assert said[0] == "a pool of 200 tasks"


def test_returns_of_which_some_agree():
    returns = curriculum._returns(0)
    assert all(len(group) == 16 and 0 <= min(group) <= max(group) <= 1 for group in returns)
    assert 0.3 < sum(min(group) == max(group) for group in returns) / len(returns) < 0.5
    assert returns == curriculum._returns(0) != curriculum._returns(1)
