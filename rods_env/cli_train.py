"""`rods-env train`: a policy learns from reward; what it reached before and after; how to go on."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods_env.cli_options import Json, Quiet, check_place, make_screen
from rods_env.errors import RodsError

if TYPE_CHECKING:
    from rods_env.agents.settings import TrainSettings
    from rods_env.cli_screen import Screen

_NEEDED = ("torch", "transformers", "trl", "datasets")
_INSTALL = "pip install 'rods-env[train]'"

# Values of settings come as text, so that every way of giving them is read and checked by the same code.
_Text = str | None


def _setting(help: str, metavar: str = "N") -> Any:
    return typer.Option(metavar=metavar, help=help, rich_help_panel="Settings of the run")


def train(
    preset: Annotated[
        _Text, typer.Option(metavar="NAME", help="tiny (default), tiny-bfcl, smollm2 or qwen2.5-1.5b.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings: a TOML, YAML or JSON file.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of docs/training.md; repeatable."),
    ] = None,
    run: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The run folder; runs/… if not given.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Go on with the run in this folder.")] = None,
    policy: Annotated[_Text, _setting("tiny, smollm2, a Hugging Face name, or a folder.", "NAME")] = None,
    tasks: Annotated[_Text, _setting("What the curriculum starts from.", "SET")] = None,
    heldout: Annotated[_Text, _setting("What is evaluated on and never trained on.", "SET")] = None,
    curriculum: Annotated[_Text, _setting("Which task comes next: frontier, fixed, …", "NAME")] = None,
    steps: Annotated[_Text, _setting("Updates of the policy in the whole run, or of --warmup-only.")] = None,
    group_size: Annotated[_Text, _setting("Rollouts of a task.")] = None,
    groups_per_step: Annotated[_Text, _setting("Tasks of a step.")] = None,
    learning_rate: Annotated[_Text, _setting("How far a step goes.", "X")] = None,
    beta: Annotated[_Text, _setting("Weight of the KL divergence to the beginning.", "X")] = None,
    eval_every: Annotated[_Text, _setting("Steps between evaluations; 0: only before and after.")] = None,
    save_every: Annotated[_Text, _setting("Steps between checkpoints.")] = None,
    seed: Annotated[_Text, _setting("Equal seeds give equal runs.")] = None,
    warmup_only: Annotated[
        bool, typer.Option("--warmup-only", metavar="", help="Make a tiny policy without reward: docs/training.md.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", metavar="", help="Print every setting.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train a policy on tasks at the edge of what it can do; Ctrl-C saves, and --resume goes on."""
    check_place(json)
    direct = {
        "policy": policy, "tasks": tasks, "heldout": heldout, "curriculum": curriculum, "steps": steps,
        "group_size": group_size, "groups_per_step": groups_per_step, "learning_rate": learning_rate, "beta": beta,
        "eval_every": eval_every, "save_every": save_every, "seed": seed,
    }  # fmt: skip
    given = {name: value for name, value in direct.items() if value is not None}
    if warmup_only:
        wrong = [name for name in given if name not in ("seed", "steps", "tasks")]
        if wrong or preset or config or set_ or resume or verbose:
            raise RodsError(
                "--warmup-only takes --run, --steps, --seed, --tasks, --json and --quiet; leave out the others."
            )
        check_installed()
        from rods_env.agents.loading import quiet_libraries

        with quiet_libraries():
            _warm_up(make_screen(quiet), run, _whole("steps", steps, 1), _whole("seed", seed, 0), tasks, json)
        return
    check_installed()

    from rods_env.agents.loading import quiet_libraries
    from rods_env.agents.settings import assignment, make_settings

    given |= dict(assignment(text) for text in set_ or [])
    if resume is not None:
        if run is not None or config is not None or preset is not None:
            raise RodsError("--resume goes on in the folder of the run: leave out --run, --config and --preset.")
        folder, settings = _resumed(resume, given)
        name = _preset_of(resume / "config.json", settings)
    else:
        settings = make_settings(preset, config, given)
        name = preset or ("tiny" if config is None else _preset_of(config, settings))
        folder = new_folder(run, name)
    with quiet_libraries():
        _train(make_screen(quiet), settings, name, folder, resume is not None, verbose, json)


def _whole(name: str, text: str | None, least: int) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise RodsError(f"{name} must be a whole number from {least} on; got {text!r}.")
    return int(text)


# ---------------------------------------------------------------------- what a run starts from


def check_installed() -> None:
    """Refuses to begin without the libraries of training.

    Raises:
        RodsError: names those that are missing, and the command that installs them.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise RodsError(f"training needs {', '.join(_NEEDED)}; {', '.join(missing)} {verb} not installed: {_INSTALL}.")


def _preset_of(file: Path, settings: TrainSettings) -> str:
    """The preset with which settings from a file are compared: the one that it names, or that of the same policy."""
    from rods_env.agents.settings import PRESETS, read_settings

    stated = read_settings(file).get("preset")
    of_policy = [name for name, values in PRESETS.items() if values["policy"] == settings.policy]
    return str(stated) if stated is not None else next(iter(of_policy), "tiny")


def new_folder(wanted: Path | None, preset: str, now: float | None = None) -> Path:
    """The folder of a new run, in which there is no run yet.

    Args:
        wanted: what the user said; None: a fresh name under `runs`, made of preset, date and time.
        preset: its name.
        now: seconds since the epoch; the present if not given.

    Raises:
        RodsError: if there is something in the wanted folder, or several processes would each make up a name.
    """
    if wanted is not None:
        if wanted.exists() and not wanted.is_dir():
            raise RodsError(f"{wanted} is a file: name another folder by --run.")
        if (wanted / "metrics.jsonl").exists() and _rank() == 0:
            raise RodsError(f"{wanted} holds a run: go on with it by --resume {wanted}, or name another by --run.")
        if wanted.is_dir() and not (wanted / "config.json").exists() and any(wanted.iterdir()) and _rank() == 0:
            raise RodsError(f"{wanted} holds other files: name a new folder by --run.")
        return wanted
    if _processes() > 1:
        raise RodsError("several processes need one folder: name it by --run FOLDER.")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    folder, number = Path("runs") / f"{preset}-{stamp}", 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{preset}-{stamp}-{number}"
    return folder


def _resumed(folder: Path, given: dict[str, str]) -> tuple[Path, TrainSettings]:
    """The settings of a run that goes on; only what nothing depends on may change, such as its length."""
    from rods_env.agents.settings import make_settings

    if not (folder / "config.json").is_file():
        raise RodsError(f"{folder} is no run folder: there is no config.json in it.")
    from rods_env.agents.run_folder import MAY_CHANGE, RunFolder

    wrong = [name for name in given if name not in MAY_CHANGE]
    if wrong:
        raise RodsError(
            f"--resume goes on with the settings of the run: leave out {', '.join(wrong)}, or begin a new run with "
            f"--config {folder / 'config.json'}."
        )
    settings = make_settings(None, folder / "config.json", given)
    done = max((step for step, _ in RunFolder(folder).checkpoints()), default=0)
    if done >= settings.steps:
        raise RodsError(
            f"the run in {folder} has made its {settings.steps} steps: say how many it should have, such as --steps "
            f"{2 * done}, or evaluate it: rods-env eval --agent {folder}."
        )
    return folder, settings


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def make_agent(settings: TrainSettings, run: Path) -> Any:
    """The policy of the settings, and what trains it."""
    from rods_env.agents.grpo import GrpoAgent
    from rods_env.agents.policy import load_policy

    policy = load_policy(
        settings.policy, dtype=settings.dtype, device=settings.device, attention=settings.attention,
        tool_docs=settings.tool_docs, lora_rank=settings.lora_rank, lora_alpha=settings.lora_alpha,
        gradient_checkpointing=settings.gradient_checkpointing, seed=settings.seed,
    )  # fmt: skip
    return GrpoAgent(policy, settings, run)


# ---------------------------------------------------------------------- a run


def _train(
    screen: Screen, settings: TrainSettings, preset: str, folder: Path, resumed: bool, verbose: bool, json: Path | None
) -> None:
    from rods_env import cli_train_screen as words
    from rods_env.cli_live import View

    begun = time.monotonic()
    if _rank() != 0:  # the first process speaks for all
        make_agent(settings, folder).train(resume=resumed)
        return
    with screen.progress(f"loading {settings.policy}"):
        agent = make_agent(settings, folder)
    words.announce(screen, settings, preset, folder, agent, resumed, verbose)
    fresh = settings.curriculum_options.get("mode") == "stream" or settings.curriculum == "fresh"
    view = View(screen, settings.steps, fresh=fresh)
    if resumed:
        view.know(_kept_rows(folder))
    else:
        view.say("playing the held-out tasks, before training …")
    try:
        with view.open():
            agent.train(on_row=view, resume=resumed)
    except KeyboardInterrupt:
        words.stopped(screen, folder, view)
        raise typer.Exit(130) from None
    minutes = (time.monotonic() - begun + view.progress.earlier) / 60
    words.result(screen, agent.before, agent.latest, settings, minutes, view)
    words.where(screen, folder, settings, words.draw_curves(folder))
    if json is not None:
        from rods_env.cli_tables import save_figures

        save_figures(words.figures(agent.before, agent.latest, minutes, view), json)


def _kept_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows up to the checkpoint that a run goes on from."""
    from rods_env.agents.run_folder import RunFolder

    run = RunFolder(folder)
    steps = [step for step, _ in run.checkpoints()]
    return [row for row in run.rows() if row["step"] <= max(steps, default=0)]


# ---------------------------------------------------------------------- the warm-up


def _warm_up(
    screen: Screen, run: Path | None, steps: int | None, seed: int | None, tasks: str | None, json: Path | None
) -> None:
    """Makes the base of the tiny policy anew, or a tiny policy that learns from tasks of BFCL."""
    folder = new_folder(run, "warmup")
    from rods_env.cli_live import duration
    from rods_env.cli_tables import save_figures

    if tasks is None:
        from rods_env.agents.warmup import make_base
    else:
        from rods_env.agents.bfcl_warmup import make_bfcl_policy
        from rods_env.tasks.task import load_tasks

    screen.line(
        "A new tiny policy learns from the oracle's episodes how to call tools, look things up, and go on after errors."
    )
    screen.line("There is no reward in this; it makes what `rods-env train` starts from.")
    last: dict[str, Any] = {}
    plain = screen.quiet or not screen.console.is_terminal
    begun = time.monotonic()
    with screen.progress("collecting words") as done:

        def on_stage(stage: str) -> None:
            if plain:
                print(f"{stage} …", file=screen.console.file, flush=True)
            else:
                done(stage)

        def on_row(row: dict[str, Any]) -> None:
            step, total = int(row["step"]), int(row["steps"])
            left = duration(row["seconds"] / step * (total - step))
            if not plain:
                done(f"step {step} of {total}, loss {row['loss']:.3f}, about {left} left")
            elif step == total or step % max(50, total // 50 // 50 * 50) == 0:
                print(f"step {step}/{total}\tloss {row['loss']:.3f}\tleft {left}", file=screen.console.file, flush=True)
            last.update(row)

        given: dict[str, Any] = {"steps": steps, "seed": seed}
        given = {name: value for name, value in given.items() if value is not None}
        if tasks is None:
            made = make_base(folder, on_row=on_row, **given)
        else:
            made = make_bfcl_policy(folder, load_tasks(tasks), on_stage=on_stage, on_row=on_row, **given)
    screen.line(f"The base is in {made}; making it took {duration(time.monotonic() - begun)}.")
    screen.line(f"train from it:  rods-env train {'--preset tiny-bfcl ' if tasks else ''}--policy {made}")
    save_figures({name: float(value) for name, value in last.items()}, json)
