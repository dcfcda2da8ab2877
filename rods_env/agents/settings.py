"""What a training run is made of: every setting with its default and source, presets, files, and their checks."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rods_env.errors import RodsError

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
SCALES = ("group", "batch", "none")
CREDITS = ("episode", "turn")


class TrainSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a run of `rods-env train`. Sources of the defaults: [RODS] arXiv 2606.19047 (settings of its GRPO
    runs, as reported by notes on it); [TRL] TRL's default; [DAPO] arXiv 2503.14476; [ours] a plain choice, or found on
    this project's tuning tasks.

    Attributes:
        policy: "tiny", "smollm2", the name of a Hugging Face model, or a folder, also that of a run [ours].
        dtype: of the weights: "float32", "bfloat16" or "float16" [ours].
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", … [ours].
        attention: "sdpa" or "eager"; "auto" leaves the choice to transformers [ours].
        tool_docs: "template" gives JSON schemas to the chat template, "signatures" writes one line a tool [ours].
        lora_rank: rank of LoRA adapters (peft); 0 trains all weights [ours].
        lora_alpha: scale of the adapters [ours].
        gradient_checkpointing: less memory for more time [ours].
        tasks: what the curriculum starts from: "seeds", "tiny:seeds", or a task file [ours].
        tasks_limit: only the first ones; 0: all [ours].
        heldout: what is evaluated on and never trained on; as `tasks` [ours].
        heldout_limit: only the first ones; 0: all [ours].
        curriculum: which task comes next, see docs/curricula.md: "fixed", "dapo", "replay", "random", "fresh",
            "offline", "oneshot" or "frontier" [RODS].
        curriculum_options: its keywords, such as `mode` [ours].
        environment_options: keywords of `ToolUseEnv`, such as `stop_at_failed_turn` [ours].
        steps: updates of the policy [ours].
        group_size: rollouts of a task, G; 16 [RODS].
        groups_per_step: tasks of a step; 32 [RODS].
        learning_rate: of AdamW; 1e-6 [RODS].
        warmup_steps: steps over which the learning rate rises from 0 [TRL].
        schedule: transformers' `lr_scheduler_type` [ours].
        weight_decay: of AdamW [TRL].
        max_grad_norm: gradients are clipped to this norm [TRL].
        beta: weight of the KL divergence to the policy that the run began with; 0.01 [RODS]; 0 needs no second model.
        epsilon: the ratio of new to old probability is clipped below 1 - epsilon; 0.2 [TRL].
        epsilon_high: and above 1 + epsilon_high; 0: as `epsilon` [TRL]; 0.28 [DAPO].
        loss: TRL's `loss_type`: "grpo", "bnpo", "dr_grpo", "dapo" (every token weighs the same) or "luspo" [TRL].
        scale_rewards: what advantages are divided by: the standard deviation of their "group" [TRL], of the "batch", or
            "none".
        credit: what the tokens of a message are credited with: the return of the whole "episode" [TRL], or what was
            paid from their "turn" on, compared with the others of the group [ours].
        updates: passes over the same rollouts, TRL's `num_iterations` [TRL].
        micro_batch: rollouts in one forward pass of the update; less needs less memory [ours].
        temperature: of sampling in training [TRL].
        top_p: sampling takes the likeliest tokens that have this much probability together [TRL].
        max_message: most tokens of a message [ours].
        max_turn: most sampled tokens of a turn [ours].
        max_messages: most messages of an episode [ours].
        max_episode: most tokens of an episode, all that is read included [ours].
        slots: episodes played at once; more are faster and need more memory [ours].
        eval_every: steps between evaluations on the held-out tasks; 0: only before and after [ours].
        eval_temperature: of sampling in evaluations; 0 takes the likeliest token [ours].
        save_every: steps between checkpoints [ours].
        keep: how many checkpoints are kept [ours].
        seed: equal seeds give equal runs on equal machines [ours].
        threads: torch's threads; 0: measured at the start [ours].
        report_to: TRL's reporters, with commas between: tensorboard, trackio, wandb [ours].
    """

    policy: str = "tiny"
    dtype: str = "float32"
    device: str = "auto"
    attention: str = "auto"
    tool_docs: str = "template"
    lora_rank: int = 0
    lora_alpha: float = 32.0
    gradient_checkpointing: bool = False
    tasks: str = "seeds"
    tasks_limit: int = 0
    heldout: str = "heldout"
    heldout_limit: int = 0
    curriculum: str = "frontier"
    curriculum_options: dict[str, Any] = {}
    environment_options: dict[str, Any] = {}
    steps: int = 100
    group_size: int = 16
    groups_per_step: int = 32
    learning_rate: float = 1e-6
    warmup_steps: int = 0
    schedule: str = "constant_with_warmup"
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    beta: float = 0.01
    epsilon: float = 0.2
    epsilon_high: float = 0.0
    loss: str = "dapo"
    scale_rewards: str = "group"
    credit: str = "episode"
    updates: int = 1
    micro_batch: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    max_message: int = 256
    max_turn: int = 2048
    max_messages: int = 40
    max_episode: int = 8192
    slots: int = 128
    eval_every: int = 25
    eval_temperature: float = 0.0
    save_every: int = 25
    keep: int = 2
    seed: int = 0
    threads: int = 0
    report_to: tuple[str, ...] = ()


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {
        "policy": "tiny", "tasks": "tiny:seeds", "heldout": "tiny:heldout", "heldout_limit": 400,
        "steps": 100, "group_size": 8, "groups_per_step": 16, "learning_rate": 5e-4, "warmup_steps": 5, "beta": 0.0,
        "credit": "turn", "micro_batch": 128, "max_message": 24, "max_turn": 96, "max_messages": 24,
        "max_episode": 512, "slots": 512, "eval_every": 25, "eval_temperature": 1.0,
    },
    "tiny-bfcl": {  # made by: rods-env train --warmup-only --tasks bfcl:train --run runs/tiny-bfcl
        "policy": "./runs/tiny-bfcl", "tasks": "bfcl:train", "heldout": "bfcl:test", "steps": 20, "group_size": 8,
        "groups_per_step": 8, "learning_rate": 1e-4, "beta": 0.0, "credit": "turn", "micro_batch": 8,
        "max_message": 128, "max_turn": 512, "max_messages": 40, "max_episode": 1024, "slots": 64, "eval_every": 0,
        "save_every": 10,
    },
    "smollm2": {
        "policy": "smollm2", "tool_docs": "signatures", "heldout_limit": 8, "steps": 4, "group_size": 4,
        "groups_per_step": 2, "learning_rate": 5e-6, "micro_batch": 1, "max_message": 64, "max_turn": 256,
        "max_messages": 12, "max_episode": 2048, "slots": 8, "eval_every": 0, "save_every": 2,
        "environment_options": {"attempts_per_turn": 3},
    },
    "qwen2.5-1.5b": {
        "policy": "Qwen/Qwen2.5-1.5B-Instruct", "dtype": "bfloat16", "gradient_checkpointing": True, "steps": 400,
        "micro_batch": 8, "slots": 64, "max_episode": 4096, "eval_every": 50, "save_every": 50,
    },
}  # fmt: skip


# ---------------------------------------------------------------------- files and overrides


def make_settings(
    preset: str | None = None,
    file: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> TrainSettings:
    """The settings of a run: those of a preset, changed by a file, changed by overrides.

    Args:
        preset: a name of `PRESETS`. None: what the file says under `preset`, or "tiny".
        file: TOML, YAML or JSON, as told by its ending; see `read_settings`. A table of options, such as
            `curriculum_options`, replaces that of the preset.
        overrides: values by name, as they are or as text. A dotted name changes one option:
            `curriculum_options.mode`.

    Raises:
        RodsError: for an unknown name, a value of the wrong type or out of range, or a file that cannot be read.
    """
    given = dict(read_settings(file)) if file is not None else {}
    stated = given.pop("preset", None)
    name = preset if preset is not None else stated if stated is not None else "tiny"
    if name not in PRESETS:
        raise RodsError(f"unknown preset {name!r}: expected one of {', '.join(PRESETS)}.")
    values = dict(PRESETS[name])
    for key, value in given.items():
        values[key] = _converted(key, value)
    for key, value in (overrides or {}).items():
        head, dot, option = key.partition(".")
        if dot and _field(head).type == dict[str, Any]:
            values[head] = {**values.get(head, {}), option: _plain(value)}
        else:
            values[key] = _converted(key, value)
    settings = TrainSettings(**values)
    check(settings)
    return settings


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a settings file; of a run's `config.json` the settings in it.

    Raises:
        RodsError: if it cannot be read, has an unknown ending, or holds no table.
    """
    place = Path(path)
    try:
        content = place.read_bytes()
    except OSError as error:
        raise RodsError(f"cannot read the settings {place}: {error.strerror}.") from None
    try:
        found = _parsed(content, place)
    except (ValueError, UnicodeDecodeError) as error:  # of TOML, JSON and, as they are made one here, YAML
        reason = " ".join(str(error).split())
        raise RodsError(f"the settings {place} cannot be read: {reason}.") from None
    if isinstance(found, dict) and isinstance(found.get("settings"), dict):
        found = {**({"preset": found["preset"]} if found.get("preset") else {}), **found["settings"]}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise RodsError(f"the settings {place} must be a table of names and values, such as `steps = 100`.")
    return found


def _parsed(content: bytes, place: Path) -> Any:
    if place.suffix == ".toml":
        return tomllib.loads(content.decode())
    if place.suffix == ".json":
        return msgspec.json.decode(content)
    if place.suffix in (".yaml", ".yml"):
        try:
            yaml: Any = importlib.import_module("yaml")  # comes with transformers
        except ImportError:
            raise RodsError(f"{place}: YAML needs PyYAML: pip install pyyaml, or write TOML.") from None
        try:
            return yaml.safe_load(content.decode()) or {}
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    raise RodsError(f"the settings {place} must end in .toml, .yaml or .json.")


def assignment(text: str) -> tuple[str, str]:
    """Name and value of `name=value`.

    Raises:
        RodsError: if it is none.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise RodsError(f"expected name=value, such as steps=100; got {text!r}.")
    return name.strip(), value.strip()


def differences(settings: TrainSettings, preset: str) -> dict[str, Any]:
    """What settings have other than a preset."""
    plain = make_settings(preset)
    return {
        name: value
        for name in settings.__struct_fields__
        if (value := getattr(settings, name)) != getattr(plain, name)
    }


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _field(name: str) -> msgspec.structs.FieldInfo:
    for field in msgspec.structs.fields(TrainSettings):
        if field.name == name:
            return field
    close = difflib.get_close_matches(name, [*TrainSettings.__struct_fields__], 1)
    hint = f"did you mean {close[0]!r}?" if close else "docs/training.md lists all."
    raise RodsError(f"unknown setting {name!r}; {hint}")


def _converted(name: str, value: Any) -> Any:
    """A value as the type of a setting; texts are read, because the command line and YAML (1e-5) give them."""
    kind = _field(name).type
    given = value
    if kind == dict[str, Any]:
        value = _plain(value)
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return dict(value)
        example = f"{name}.{'mode=pool' if name.startswith('curriculum') else 'stop_at_failed_turn=true'}"
        raise RodsError(f"{name} must be a table of options, such as {example}; got {given!r}.")
    if kind == tuple[str, ...]:
        if isinstance(value, str):
            value = [word.strip() for word in value.strip("[]()").split(",") if word.strip()]
        if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
            return tuple(value)
        raise RodsError(f"{name} must be names with commas between; got {given!r}.")
    if kind is bool and isinstance(value, str):
        value = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(value.lower(), value)
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        raise RodsError(f"{name} must be {_KINDS[kind]}; got {given!r}.") from None


def _plain(value: Any) -> Any:
    """What a text stands for: JSON, or else itself."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError):
        return value


# ---------------------------------------------------------------------- checks

# Least and most of each number; the least itself is out of range where the third is True.
_RANGES: dict[str, tuple[float, float, bool]] = {
    "lora_rank": (0, 4096, False), "lora_alpha": (0, math.inf, True), "tasks_limit": (0, math.inf, False),
    "heldout_limit": (0, math.inf, False), "steps": (1, math.inf, False), "group_size": (2, math.inf, False),
    "groups_per_step": (1, math.inf, False), "learning_rate": (0, 1, True), "warmup_steps": (0, math.inf, False),
    "weight_decay": (0, 1, False), "max_grad_norm": (0, math.inf, True), "beta": (0, math.inf, False),
    "epsilon": (0, 1, True), "epsilon_high": (0, math.inf, False), "updates": (1, math.inf, False),
    "micro_batch": (1, math.inf, False), "temperature": (0, math.inf, True), "top_p": (0, 1, True),
    "max_message": (1, math.inf, False), "max_turn": (1, math.inf, False), "max_messages": (1, math.inf, False),
    "max_episode": (2, math.inf, False), "slots": (1, math.inf, False), "eval_every": (0, math.inf, False),
    "eval_temperature": (0, math.inf, False), "save_every": (1, math.inf, False), "keep": (1, math.inf, False),
    "seed": (0, 2**32 - 1, False), "threads": (0, 1024, False),
}  # fmt: skip


def check(settings: TrainSettings) -> None:
    """Refuses settings out of range.

    Raises:
        RodsError: names the setting, what it may be, and what it is.
    """
    for name, (least, most, beyond) in _RANGES.items():
        value = getattr(settings, name)
        if not (least < value if beyond else least <= value) or value > most or not math.isfinite(value):
            above = f"above {least:g}" if beyond else f"at least {least:g}"
            below = "" if most == math.inf else f" and at most {most:g}"
            raise RodsError(f"{name} must be {above}{below}; got {value!r}.")
    if settings.credit == "turn" and settings.scale_rewards == "batch":
        raise RodsError('credit "turn" compares within groups: scale_rewards must be group or none; got batch.')
    from rods_env.curricula import CURRICULA
    from rods_env.envs.tool_use import ToolUseEnv

    choices = {
        "dtype": ("float32", "bfloat16", "float16"),
        "attention": ("auto", "sdpa", "eager"),
        "tool_docs": ("template", "signatures"),
        "loss": LOSSES,
        "scale_rewards": SCALES,
        "credit": CREDITS,
        "curriculum": tuple(CURRICULA),
    }
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise RodsError(f"{name} must be one of {', '.join(allowed)}; got {getattr(settings, name)!r}.")
    _check_options("curriculum_options", settings.curriculum_options, CURRICULA[settings.curriculum])
    _check_options("environment_options", settings.environment_options, ToolUseEnv)


_MADE_HERE = ("self", "tasks", "seed", "synthesizer", "render_mode")  # the run itself says these


def _check_options(name: str, options: Mapping[str, Any], maker: type) -> None:
    parameters = inspect.signature(maker.__init__).parameters.values()  # type: ignore[misc]
    known = [p.name for p in parameters if p.name not in _MADE_HERE and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}."
            raise RodsError(f"{name} has no {option!r}; {hint}")
