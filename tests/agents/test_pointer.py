"""The pointer policy: its network, its episodes, and how it learns."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rods_env.agents import pointer
from rods_env.agents.pointer import Batch, PointerNet
from rods_env.agents.pointer_grpo import PointerGrpo, PointerSettings, advantages_of, imitate, warm_up
from rods_env.agents.pointer_play import oracle, play
from rods_env.agents.pointer_tree import Forest
from rods_env.envs.candidates.signatures import signatures
from rods_env.errors import RodsError
from rods_env.tasks.tiny_sets import long_tasks

SETTINGS = PointerSettings(group_size=4, groups_per_step=4, warmup_epochs=3, width=32)


@pytest.fixture(scope="module")
def tasks():
    return list(islice(long_tasks(5), 24))


@pytest.fixture(scope="module")
def shown(tasks):
    forest = Forest()
    return [oracle(forest, task) for task in tasks]


def make_net(seed=0, width=32):
    return PointerNet(len(signatures().names), width=width, seed=seed)


@pytest.fixture(scope="module")
def warmed(shown):
    net = make_net()
    warm_up(net, shown, PointerSettings(warmup_epochs=8, warmup_batch=4, width=32), 0)
    return net


# ---------------------------------------------------------------------- the network


def test_probabilities_of_a_state_sum_up_to_one(shown):
    nodes = [node for episode in shown for node in episode.nodes]
    batch = Batch(nodes)
    with torch.no_grad():
        logs = make_net()(batch)
    sums = [part.exp().sum().item() for part in logs.split(batch.counts.tolist())]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
    assert batch.counts.tolist() == [len(node.tool) for node in nodes]


def test_a_state_is_scored_alike_alone_and_among_others(shown):
    nodes = [node for episode in shown[:5] for node in episode.nodes]
    net = make_net()
    with torch.no_grad():
        together = net(Batch(nodes))
        alone = torch.cat([net(Batch([node])) for node in nodes])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("column", "number", "bin_"), [(0, 0, 0), (0, 5, 5), (1, 3, 3), (1, 9, 3), (2, 5, 4), (2, 255, 5), (6, 4, 4)]
)
def test_numbers_fall_into_bins(shown, column, number, bin_):
    node = shown[0].nodes[0]
    known = np.zeros_like(node.known)
    known[1, 2, column] = number
    others = {name: getattr(node, name) for name in ("tool", "made", "words", "called", "state")}
    state = SimpleNamespace(known=known, **others)
    facts = Batch([state]).facts.view(len(node.tool), 4, -1)[1, 2, :-1]
    wanted = np.zeros(len(facts))
    for place in range(len(pointer._BINS)):
        wanted[sum(map(len, pointer._BINS[:place])) + (bin_ if place == column else 0)] = 1
    np.testing.assert_array_equal(facts, wanted)


def test_each_argument_has_a_bin_of_each_column(shown):
    node = shown[0].nodes[2]
    facts = Batch([node]).facts.view(len(node.tool), 4, -1)
    assert (facts[:, :, :-1].sum(2) == 8).all()
    last = (node.known[:, :, 4] > 1) & (node.known[:, :, 3] == node.known[:, :, 4])
    np.testing.assert_array_equal(facts[:, :, -1].numpy().astype(bool), last)


def test_the_seed_is_not_a_global_one():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, again, other = make_net(1), make_net(1), make_net(2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first.words.weight, again.words.weight)
    assert not torch.equal(first.words.weight, other.words.weight)


def test_saved_and_read(tmp_path, warmed, shown):
    warmed.save(tmp_path / "net.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt"]
    again = PointerNet.load(tmp_path / "net.pt")
    batch = Batch(shown[0].nodes)
    with torch.no_grad():
        assert torch.equal(again(batch), warmed(batch))
    (tmp_path / "none.pt").write_text("no weights")
    for name in ("none.pt", "missing.pt"):
        with pytest.raises(RodsError, match=f"cannot read the pointer policy .*{name}"):
            PointerNet.load(tmp_path / name)


# ---------------------------------------------------------------------- episodes


def test_an_episode_has_its_own_chance(warmed, tasks):
    noise = np.random.default_rng(0).random((len(tasks), 16))
    together = play(warmed, (forest := Forest()), [forest.root(task) for task in tasks], noise)
    for row in (0, 7, 23):
        alone = play(warmed, (forest := Forest()), [forest.root(tasks[row])], noise[row : row + 1])
        assert alone[0].actions == together[row].actions
    assert all(episode.nodes[-1].ended is not None for episode in together)


def test_actions_come_as_often_as_they_are_likely(warmed, tasks):
    forest = Forest()
    root = forest.root(tasks[1])
    with torch.no_grad():
        likely = warmed(Batch([root])).exp().numpy()
    n = 3000
    noise = np.random.default_rng(1).random((n, 16))
    firsts = [episode.actions[0] for episode in play(warmed, forest, [root] * n, noise)]
    often = np.bincount(firsts, minlength=len(likely)) / n
    assert np.abs(often - likely).max() < 4 * 0.5 / n**0.5  # four standard deviations at most
    assert likely.max() < 0.99  # or this would say nothing


def test_what_is_right_can_be_told_from_all_else(shown):
    """No other action looks like the oracle's, so that no task is beyond what the network can learn."""
    for episode in shown:
        for node, action in zip(episode.nodes, episode.actions, strict=False):  # the last state has no action
            alike = (node.tool == node.tool[action]) & (node.made == node.made[action])
            alike &= (node.known == node.known[action]).all(axis=(1, 2))
            assert alike.sum() == 1


def test_without_noise_the_likeliest_action_is_taken(warmed, tasks):
    forest = Forest()
    roots = [forest.root(task) for task in tasks[:4]]
    for episode in play(warmed, forest, roots):
        with torch.no_grad():
            logs = warmed(Batch(episode.nodes[:-1])).split([len(node.tool) for node in episode.nodes[:-1]])
        assert episode.actions == [int(part.argmax()) for part in logs]


# ---------------------------------------------------------------------- learning


def paid(*rewards):
    """An episode that is paid so at the end of its turns, with two actions in each turn but the last."""
    nodes, progress = [SimpleNamespace(turn=0, paid=0.0)], 0.0
    for turn, reward in enumerate(rewards):
        progress += reward
        nodes.append(SimpleNamespace(turn=turn, paid=0.0))
        nodes.append(SimpleNamespace(turn=min(turn + 1, len(rewards) - 1), paid=reward, progress=progress))
    return SimpleNamespace(nodes=nodes, actions=[0] * (len(nodes) - 1), progress=progress)


def test_advantages_by_episode():
    group = [paid(0.5, 0.5), paid(0.5, 0.0), paid(0.0, 0.0)]
    returns = np.array([1.0, 0.5, 0.0])
    wanted = (returns - 0.5) / returns.std()
    found = advantages_of(group, PointerSettings(credit="episode"))
    np.testing.assert_allclose(found, np.repeat(wanted[:, None], 4, axis=1), atol=1e-6)
    plain = advantages_of(group, PointerSettings(credit="episode", scale=False))
    np.testing.assert_allclose(plain, np.repeat((returns - 0.5)[:, None], 4, axis=1), atol=1e-12)


def test_advantages_by_turn_leave_earlier_pay_out():
    group = [paid(0.5, 0.5), paid(0.0, 0.5), paid(0.5, 0.0), paid(0.0, 0.0)]
    found = np.array(advantages_of(group, PointerSettings(credit="turn", scale=False)))
    np.testing.assert_allclose(found[:, 0], [0.5, 0.0, 0.0, -0.5], atol=1e-12)
    np.testing.assert_allclose(found[:, -1], [0.25, 0.25, -0.25, -0.25], atol=1e-12)


def test_turns_that_agree_teach_nothing():
    group = [paid(0.5, 0.5), paid(0.5, 0.0)]
    found = np.array(advantages_of(group, PointerSettings(credit="turn")))
    assert (found[:, -1] == [1.0, -1.0]).all()
    same = advantages_of([paid(0.5, 0.5), paid(0.5, 0.5)], PointerSettings())
    assert not np.any(same)


@pytest.mark.parametrize("credit", ["turn", "episode"])
def test_an_update_has_the_gradient_of_the_sum_over_all_episodes(warmed, tasks, credit):
    settings = PointerSettings(group_size=6, credit=credit, width=32)
    forest, rng = Forest(), np.random.default_rng(2)
    groups = []
    for task in tasks[:4]:
        root = forest.root(task)
        groups.append(play(warmed, forest, [root] * 6, rng.random((6, 16))))
    naive, total = 0.0, sum(map(len, groups))
    for group in groups:
        for episode, values in zip(group, advantages_of(group, settings), strict=True):
            logs = warmed(Batch(episode.nodes[:-1])).split([len(node.tool) for node in episode.nodes[:-1]])
            for part, action, value in zip(logs, episode.actions, values, strict=True):
                naive = naive - value * part[action] / total
    wanted = torch.autograd.grad(naive, list(warmed.parameters()))
    net = make_net()
    net.load_state_dict(warmed.state_dict())
    learner = PointerGrpo(net, PointerSettings(credit=credit, width=32, max_norm=1e9), 10)
    assert learner.update(groups)
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


def test_no_variance_no_change(warmed, tasks):
    forest = Forest()
    episode = play(warmed, forest, [forest.root(tasks[0])])[0]
    net = make_net()
    net.load_state_dict(warmed.state_dict())
    learner = PointerGrpo(net, SETTINGS, 10)
    assert not learner.update([[episode] * 4])
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), warmed.parameters(), strict=True))


def test_the_average_follows(warmed, tasks):
    forest, rng = Forest(), np.random.default_rng(3)
    net = make_net()
    net.load_state_dict(warmed.state_dict())
    learner = PointerGrpo(net, PointerSettings(average=0.75, width=32), 10)
    before = net.out.weight.clone()
    roots = [forest.root(task) for task in tasks[:6] for _ in range(8)]
    episodes = play(net, forest, roots, rng.random((48, 16)))
    assert learner.update([episodes[k : k + 8] for k in range(0, 48, 8)])
    torch.testing.assert_close(learner.averaged.out.weight, 0.75 * before + 0.25 * net.out.weight)
    assert not torch.equal(before, net.out.weight)


@pytest.mark.parametrize(
    ("final", "rates"), [(1.0, [0.003] * 3), (0.0, [0.003, 0.002, 0.001]), (0.4, [0.003, 0.0024, 0.0018])]
)
def test_the_learning_rate_falls_evenly(final, rates):
    learner = PointerGrpo(make_net(), PointerSettings(final_rate=final, width=32), 3)
    seen = []
    for _ in rates:
        learner.update([])
        seen.append(learner._optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(seen, rates)


def test_warm_up_teaches_what_is_shown(shown, tasks):
    nets = [make_net(), make_net()]
    losses = [warm_up(net, shown, PointerSettings(warmup_epochs=30, warmup_batch=4, width=32), 0) for net in nets]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 30
    assert losses[0][-1] < 0.2 * losses[0][0]
    forest = Forest()
    before, after = (
        np.mean([e.success for e in play(net, forest, [forest.root(task) for task in tasks])])
        for net in (make_net(), nets[0])
    )
    assert before < 0.2
    assert after > 0.8


def test_imitation_tells_the_likelihood_before_it(warmed, shown):
    net = make_net()
    net.load_state_dict(warmed.state_dict())
    some = shown[:3]
    with torch.no_grad():
        each = []
        for episode in some:
            logs = net(Batch(episode.nodes[:-1])).split([len(node.tool) for node in episode.nodes[:-1]])
            each += [-float(part[action]) for part, action in zip(logs, episode.actions, strict=True)]
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    assert imitate(net, optimizer, some, SETTINGS) == pytest.approx(np.mean(each), rel=1e-4)
    assert imitate(net, optimizer, some, SETTINGS) < np.mean(each)


def test_reward_teaches(warmed, tasks):
    """On a handful of tasks that it meets again and again, returns rise."""
    settings = PointerSettings(width=32)
    net = make_net()
    net.load_state_dict(warmed.state_dict())
    fresh = list(islice(long_tasks(6), 4))
    forest, rng = Forest(), np.random.default_rng(4)
    learner = PointerGrpo(net, settings, 20)
    means = []
    for _ in range(20):
        episodes = play(net, forest, [forest.root(task) for task in fresh for _ in range(8)], rng.random((32, 16)))
        learner.update([episodes[k : k + 8] for k in range(0, 32, 8)])
        means.append(np.mean([episode.progress for episode in episodes]))
    assert np.mean(means[-5:]) > np.mean(means[:5]) + 0.2
