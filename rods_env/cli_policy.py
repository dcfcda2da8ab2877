"""`rods-env eval` for policies: a run folder, a packaged policy, or a Hugging Face model plays a set of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rods_env.agents.evaluate import Evaluation
    from rods_env.agents.settings import TrainSettings
    from rods_env.cli_screen import Screen

POLICIES = ("tiny", "smollm2")
_PRESETS = {"compact": "tiny", "calls": "tiny-bfcl"}  # by the speech of tiny policies


def is_policy(name: str) -> bool:
    """Whether a name is one of a policy: a packaged one, a folder, or OWNER/NAME of Hugging Face."""
    return name in POLICIES or Path(name).is_dir() or "/" in name


def settings_of(name: str) -> TrainSettings:
    """The settings with which a policy is evaluated: those of its run, or of the preset that trains it."""
    from rods_env.agents.settings import PRESETS, TrainSettings, make_settings

    if (Path(name) / "checkpoints").is_dir():
        return make_settings(None, Path(name) / "config.json")
    presets = [preset for preset, values in PRESETS.items() if values["policy"] == name]
    return make_settings(presets[0]) if presets else TrainSettings(policy=name)


def load(name: str, settings: TrainSettings) -> Any:
    """The policy with a name."""
    from rods_env.agents.policy import load_policy

    return load_policy(
        name, dtype=settings.dtype, device=settings.device, attention=settings.attention, tool_docs=settings.tool_docs
    )


def play_policy(
    screen: Screen, name: str, tasks: str | None, limit: int | None, seed: int
) -> tuple[Evaluation, str]:
    """Plays a policy on every task of a set.

    Args:
        screen: shows how far it is.
        name: of the policy.
        tasks: a set or file; None: the held-out tasks of its settings.
        limit: only the first ones; None: all, or as many held-out tasks as its settings say.
        seed: of sampling.

    Returns:
        The evaluation, and on what.

    Raises:
        RodsError: if there is no such policy or set, or the libraries are not installed.
    """
    from rods_env.cli_train import check_installed

    check_installed()
    from rods_env.agents.loading import quiet_libraries

    with quiet_libraries():
        return _play(screen, name, tasks, limit, seed)


def _play(screen: Screen, name: str, tasks: str | None, limit: int | None, seed: int) -> tuple[Evaluation, str]:
    from rods_env.agents.policy_evaluation import evaluate_policy
    from rods_env.agents.settings import make_settings
    from rods_env.tasks.task import load_tasks

    settings = settings_of(name)
    with screen.progress(f"loading {name}"):
        policy = load(name, settings)
    if policy.chat.speech in _PRESETS and not (Path(name) / "checkpoints").is_dir():
        # A folder with a tiny policy, no run: its context is short, and it knows the words of its own tasks only.
        settings = make_settings(_PRESETS[policy.chat.speech], None, {"policy": name})
    place = tasks if tasks is not None else settings.heldout
    chosen = load_tasks(place)[: limit or (tasks is None and settings.heldout_limit) or None]
    with screen.progress(f"{name} plays {place}", len(chosen)) as done:
        found = evaluate_policy(
            policy, chosen, seed, temperature=settings.eval_temperature, top_p=settings.top_p, slots=settings.slots,
            max_message=settings.max_message, max_turn=settings.max_turn, max_messages=settings.max_messages,
            max_episode=settings.max_episode, environment_options=settings.environment_options, progress=done,
        )  # fmt: skip
    return found, place
