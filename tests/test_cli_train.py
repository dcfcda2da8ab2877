"""`rods-env train` and `rods-env eval` of policies: options, what is said at the beginning and the end, Ctrl-C.

The agent is a stand-in that writes a run folder as the real one does; the last tests train a small network for real.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from rods_env import cli_policy, cli_train
from rods_env.agents.evaluate import Episode, Evaluation, summarize
from rods_env.agents.run_folder import RunFolder
from rods_env.agents.settings import PRESETS, TrainSettings
from rods_env.cli import app
from rods_env.cli_train import new_folder
from rods_env.cli_train_screen import counted_parameters, verdict
from rods_env.errors import RodsError

TASKS = ("--set", "tasks_limit=3", "--set", "heldout_limit=2")


def call(*args: object, columns: int = 100) -> tuple[int, str, str]:
    found = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb"}).invoke(app, [*map(str, args)])
    assert found.exception is None or isinstance(found.exception, SystemExit), repr(found.exception)
    return found.exit_code, found.stdout, found.stderr


def run(*args: object, columns: int = 100) -> str:
    code, out, err = call(*args, columns=columns)
    assert (code, err) == (0, "")
    return out


def evaluation(passed: int, n: int = 100) -> Evaluation:
    """Tasks of depth 2 and 11 by turns; the first ones are passed."""
    episodes = [
        Episode(f"t{k}", "base", 2 if k % 2 else 11, ("shop",), k < passed, float(k < passed), 3, "completed")
        for k in range(n)
    ]
    return summarize(0, episodes, 0)


class StubAgent:
    """Makes steps without learning; stops as after Ctrl-C where it is told to."""

    made: list[StubAgent] = []
    stop_at: int | None = None

    def __init__(self, settings: TrainSettings, folder: Path) -> None:
        self.settings = settings
        self.folder = RunFolder(folder)
        self.policy = SimpleNamespace(parameters=981_248)
        self.tasks = [None] * (settings.tasks_limit or 400)
        self.heldout = [None] * (settings.heldout_limit or 1000)
        self.before: Evaluation | None = None
        self.latest: Evaluation | None = None
        self.resumed = False
        self.made.append(self)

    def train(self, on_row: Any = lambda _: None, resume: bool = False) -> Evaluation | None:
        self.resumed = resume
        if not resume:
            self.folder.begin({"settings": msgspec.to_builtins(self.settings)})
        self.before = evaluation(20)
        first = max((step for step, _ in self.folder.checkpoints()), default=0)
        rows = [{"step": 0, "heldout_success": 0.2}] if not first else []
        rows += [self._row(step) for step in range(first + 1, self.settings.steps + 1)]
        for row in rows:
            if row["step"] == self.stop_at:
                raise KeyboardInterrupt
            self.folder.append(row)
            on_row(row)
            if row["step"]:
                self.folder.checkpoint(row["step"]).mkdir()
        self.latest = evaluation(50)
        return self.latest

    def _row(self, step: int) -> dict[str, Any]:
        last = {"heldout_success": 0.5} if step == self.settings.steps else {}
        return {
            "step": step, "return_mean": 0.3 + 0.1 * (step > 1), "tokens": 1000, "tokens_per_s": 500.0,
            "seconds": 60.0, "generate_s": 6.0, "environment_s": 1.0, "train_s": 3.0, **last,
        }  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and no environment of `accelerate launch`."""
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> type[StubAgent]:
    monkeypatch.setattr(cli_train, "make_agent", StubAgent)
    monkeypatch.setattr(StubAgent, "made", [])
    monkeypatch.setattr(StubAgent, "stop_at", None)
    return StubAgent


# ---------------------------------------------------------------------- a run


def test_a_run_says_what_happens_and_what_came_out(stub: type[StubAgent], here: Path) -> None:
    out = run("train", "--steps", 2, "--run", "first")
    text = " ".join(out.split())
    for words in (
        "The policy tiny (1.0 million parameters) learns from reward: in each of its 2 steps it plays 16 tasks 8 times",
        "It starts from 400 tasks (tiny:seeds), with new variants of those on which its attempts disagree; the "
        f"{PRESETS['tiny']['heldout_limit']} held-out tasks (tiny:heldout) are never trained on",
        "settings: tiny with steps=2; all of them: first/config.json",
        "Ctrl-C saves and stops.",
        "Success on 100 held-out tasks rose from 20.0% to 50.0% (+30.0 points) in 2 steps",
        "Return in training: 0.300 at the beginning, 0.400 at the end",
        "all tasks 100 0.200 [0.133, 0.289] 0.500 [0.404, 0.596] +30.0",
        "depth 2 50 0.200", "depth 11 50 0.200",
        "The run is in first: config.json, metrics.jsonl, curves.png, checkpoints.",
        "evaluate it: rods-env eval --agent first",
        "go on: rods-env train --resume first --steps 4",
    ):  # fmt: skip
        assert words in text
    assert text.index("depth 2 50") < text.index("depth 11 50")  # in the order of numbers
    assert "step 1/2\treturn 0.300" in out
    assert (here / "first" / "curves.png").is_file()


def test_quiet_runs_print_lines_with_tabs_only(stub: type[StubAgent]) -> None:
    lines = run("train", "--steps", 2, "--quiet", "--run", "r").splitlines()
    assert all(lines)
    assert "all tasks\t100\t0.200\t[0.133, 0.289]\t0.500\t[0.404, 0.596]\t+30.0" in lines
    assert sum(line.startswith("step ") for line in lines) == 3


def test_narrow_terminals_drop_the_intervals_and_wrap(stub: type[StubAgent]) -> None:
    out = run("train", "--steps", 2, "--run", "r", columns=50)
    assert max(len(line) for line in out.splitlines() if "\t" not in line and "rods-env" not in line) <= 50
    assert "0.500" in out
    assert "[0.404" not in out


def test_verbose_runs_print_every_setting(stub: type[StubAgent]) -> None:
    out = run("train", "--steps", 2, "--run", "r", "--verbose")
    shown = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert shown.issuperset(TrainSettings.__struct_fields__)


def test_json_holds_all_figures(stub: type[StubAgent], here: Path) -> None:
    run("train", "--steps", 2, "--run", "r", "--json", "f.json")
    figures = json.loads((here / "f.json").read_bytes())
    assert figures["heldout_before/success"] == 0.2
    assert figures["heldout_after/by_depth/11/success"] == 0.5
    assert (figures["steps"], figures["tokens"], figures["generate_share"]) == (2, 2000, 0.6)
    assert (figures["return_first"], figures["return_last"]) == pytest.approx((0.3, 0.4))
    assert figures["minutes"] >= 0


def test_preset_file_and_options_meet_in_this_order(stub: type[StubAgent], here: Path) -> None:
    (here / "my.yaml").write_text("steps: 5\nbeta: 0.5\nlearning_rate: 1e-5\n")
    run("train", "--preset", "smollm2", "--config", "my.yaml", "--steps", 2, "--set", "curriculum_options.mode=pool",
        "--set", "learning_rate=3e-6", "--run", "r")  # fmt: skip
    settings = stub.made[-1].settings
    assert (settings.group_size, settings.beta, settings.steps, settings.learning_rate) == (4, 0.5, 2, 3e-6)
    assert settings.curriculum_options == {"mode": "pool"}


def test_the_configuration_of_a_run_begins_a_like_one(stub: type[StubAgent], here: Path) -> None:
    run("train", "--preset", "smollm2", "--steps", 2, "--run", "r")
    out = run("train", "--config", "r/config.json", "--seed", 3)
    assert stub.made[1].settings == msgspec.structs.replace(stub.made[0].settings, seed=3)
    assert "settings: smollm2 with steps=2, seed=3" in " ".join(out.split())
    assert [folder.name[:8] for folder in (here / "runs").iterdir()] == ["smollm2-"]


def test_the_folder_of_a_run_is_fresh(here: Path) -> None:
    first = new_folder(None, "tiny", 1e9)
    first.mkdir(parents=True)
    second = new_folder(None, "tiny", 1e9)
    assert second == Path(f"{first}-2")
    second.mkdir()
    assert new_folder(None, "tiny", 1e9) == Path(f"{first}-3")
    assert new_folder(Path("mine"), "tiny") == Path("mine")


def test_several_processes_need_a_named_folder_and_only_the_first_speaks(
    stub: type[StubAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert call("train")[::2] == (2, "Error: several processes need one folder: name it by --run FOLDER.\n")
    assert run("train", "--run", "r", "--steps", 2) == ""
    assert stub.made[-1].latest is not None  # it trained


# ---------------------------------------------------------------------- going on


def test_ctrl_c_says_how_to_go_on_and_resume_does(
    stub: type[StubAgent], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stub, "stop_at", 3)
    code, out, err = call("train", "--steps", 4, "--run", "r")
    assert (code, err) == (130, "")
    assert "Stopped. Step 2 of 4 is saved, with all before it, in r." in out
    assert out.endswith("go on:  rods-env train --resume r\n")
    assert (here / "r" / "curves.png").is_file()
    monkeypatch.setattr(stub, "stop_at", None)
    text = " ".join(run("train", "--resume", "r").split())
    assert stub.made[-1].resumed
    assert stub.made[-1].settings == stub.made[0].settings
    assert "goes on learning from reward" in text
    assert "step 3/4" in text
    assert "step 2/4" not in text
    assert "in 4 steps and 2 min" in text  # the first two steps took a minute each by their rows
    assert [row["step"] for row in RunFolder("r").rows()] == [0, 1, 2, 3, 4]


def test_ctrl_c_before_the_first_step(stub: type[StubAgent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub, "stop_at", 0)
    code, out, _ = call("train", "--steps", 4, "--run", "r")
    assert code == 130
    assert "nothing was learned yet" in out
    assert out.endswith("begin again:  rods-env train --resume r\n")


def test_a_run_can_be_made_longer_and_nothing_else_may_change(stub: type[StubAgent]) -> None:
    run("train", "--steps", 2, "--run", "r")
    code, _, err = call("train", "--resume", "r")
    assert (code, err) == (
        2,
        "Error: the run in r has made its 2 steps: say how many it should have, such as --steps 4, or evaluate it: "
        "rods-env eval --agent r.\n",
    )
    run("train", "--resume", "r", "--steps", 3, "--set", "eval_every=1")
    assert stub.made[-1].settings.steps == 3
    code, _, err = call("train", "--resume", "r", "--steps", 4, "--set", "beta=1", "--group-size", 4)
    assert (code, err.count("\n")) == (2, 1)
    assert "leave out group_size, beta, or begin a new run with --config r/config.json" in err


# ---------------------------------------------------------------------- wrong use

WRONG = [
    (["--steps", "ten"], "steps must be a whole number; got 'ten'."),
    (["--set", "steps"], "expected name=value, such as steps=100; got 'steps'."),
    (["--set", "stepps=3"], "unknown setting 'stepps'; did you mean 'steps'?"),
    (["--preset", "huge"], "unknown preset 'huge': expected one of tiny, tiny-bfcl, smollm2, qwen2.5-1.5b."),
    (["--config", "none.toml"], "cannot read the settings none.toml: No such file or directory."),
    (["--group-size", "1"], "group_size must be at least 2; got 1."),
    (["--resume", "none"], "none is no run folder: there is no config.json in it."),
    (["--resume", "none", "--run", "x"], "--resume goes on in the folder of the run: leave out --run,"),
    (["--warmup-only", "--beta", "1"], "--warmup-only takes --run, --steps, --seed, --tasks, --json and --quiet;"),
    (["--warmup-only", "--steps", "0"], "steps must be a whole number from 1 on; got '0'."),
    (["--json", "none/x.json"], "cannot write none/x.json: there is no folder none; make it first."),
    (["--run", "file"], "file is a file: name another folder by --run."),
    (["--run", "full"], "full holds other files: name a new folder by --run."),
    (["--run", "old"], "old holds a run: go on with it by --resume old, or name another by --run."),
]  # fmt: skip


@pytest.mark.parametrize(("args", "sentence"), WRONG, ids=[" ".join(args) for args, _ in WRONG])
def test_wrong_use_is_one_sentence_and_harms_nothing(
    stub: type[StubAgent], here: Path, args: list[str], sentence: str
) -> None:
    (here / "file").write_text("kept")
    for name, content in (("full", "notes.txt"), ("old", "metrics.jsonl")):
        (here / name).mkdir()
        (here / name / content).write_text("kept")
    before = sorted(here.rglob("*"))
    code, out, err = call("train", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"Error: {sentence}")
    assert sorted(here.rglob("*")) == before
    assert all(place.read_text() == "kept" for place in before if place.is_file())
    assert not stub.made


@pytest.mark.parametrize("args", [["train"], ["train", "--warmup-only"], ["eval", "--agent", "tiny"]])
def test_without_the_libraries_one_sentence_with_the_command(
    monkeypatch: pytest.MonkeyPatch, here: Path, args: list[str]
) -> None:
    real = cli_train.find_spec
    monkeypatch.setattr(cli_train, "find_spec", lambda name: None if name in ("trl", "torch") else real(name))
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert err == (
        "Error: training needs torch, transformers, trl, datasets; torch, trl are not installed: "
        "pip install 'rods-env[train]'.\n"
    )
    assert not any(here.iterdir())


def test_the_command_itself_imports_nothing_heavy() -> None:
    code = (
        "import sys; from rods_env.cli import app; from rods_env.agents.settings import make_settings; "
        "print([m for m in ('torch', 'transformers', 'trl', 'matplotlib', 'yaml') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# ---------------------------------------------------------------------- words


def test_the_verdict_says_no_more_than_the_intervals() -> None:
    settings = TrainSettings(steps=10)

    def said(before: int | None, after: int) -> str:
        return verdict(None if before is None else evaluation(before), evaluation(after), settings, 3)

    rose = "Success on 100 held-out tasks rose from 20.0% to 50.0% (+30.0 points) in 10 steps and 3 min."
    assert said(20, 50) == rose
    assert said(50, 20).startswith("Success on 100 held-out tasks fell from 50.0% to 20.0% (-30.0 points) in")
    assert said(20, 22).endswith("; the 95 % intervals overlap, so this may be chance.")
    assert said(20, 20) == "Success on 100 held-out tasks stayed at 20.0% in 10 steps and 3 min."
    assert said(None, 20) == "Success on 100 held-out tasks is 20.0% after 10 steps (3 min)."


@pytest.mark.parametrize(
    ("number", "words"),
    [(7, "7"), (1200, "1.2 thousand"), (981_248, "1.0 million"), (134_515_008, "135 million"),
     (1_543_714_304, "1.5 billion")],
)
def test_sizes_in_words(number: int, words: str) -> None:
    assert counted_parameters(number) == words


# ---------------------------------------------------------------------- the warm-up


def test_the_warm_up_shows_its_steps_and_says_what_to_do_next(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    asked: dict[str, Any] = {}

    def make_base(folder: Path, *, on_row: Any, **given: Any) -> Path:
        asked.update(given, folder=folder)
        for step in range(50, 201, 50):
            on_row({"step": step, "steps": 200, "loss": 1 / step, "seconds": float(step)})
        return folder

    monkeypatch.setattr("rods_env.agents.warmup.make_base", make_base)
    out = run("train", "--warmup-only", "--run", "base", "--steps", 200, "--seed", 4, "--json", "f.json")
    assert asked == {"folder": Path("base"), "steps": 200, "seed": 4}
    assert "step 100/200\tloss 0.010\tleft 2 min" in out
    assert "train from it:  rods-env train --policy base" in out
    assert json.loads((here / "f.json").read_bytes()) == {"step": 200, "steps": 200, "loss": 0.005, "seconds": 200}
    asked.clear()
    run("train", "--warmup-only", "--quiet")
    assert set(asked) == {"folder"}  # the recipe's own steps and seed
    assert str(asked["folder"]).startswith("runs/warmup-")


# ---------------------------------------------------------------------- eval


def test_what_is_taken_for_a_policy(here: Path) -> None:
    (here / "runs").mkdir()
    assert all(map(cli_policy.is_policy, ("tiny", "smollm2", "runs", "Qwen/Qwen3-0.6B")))
    assert not cli_policy.is_policy("genius")
    code, _, err = call("eval", "--agent", "genius")
    assert code == 2
    assert "unknown agent 'genius': expected one of oracle, do-nothing, random, read-everything, tiny" in err


def test_a_policy_is_evaluated_with_the_settings_of_its_run(here: Path) -> None:
    settings = TrainSettings(policy="tiny", max_message=7, heldout="tiny:heldout")
    folder = RunFolder("r")
    folder.begin({"settings": msgspec.to_builtins(settings)})
    assert cli_policy.settings_of("r") == settings
    assert cli_policy.settings_of("smollm2").tool_docs == "signatures"
    assert cli_policy.settings_of("Qwen/Qwen2.5-1.5B-Instruct").dtype == "bfloat16"
    assert cli_policy.settings_of("some/model") == TrainSettings(policy="some/model")


# ---------------------------------------------------------------------- for real


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy that was not trained."""
    from rods_env.agents.chat import Chat
    from rods_env.agents.policy import Policy
    from rods_env.agents.tiny import make_model, make_tokenizer, vocabulary

    tokenizer = make_tokenizer(vocabulary(["a few words"]))
    model = make_model(len(tokenizer), width=32, layers=1, heads=2, kv_heads=1, inner=32)
    folder = tmp_path_factory.mktemp("cli") / "base"
    Policy("tiny", model, tokenizer, Chat(tokenizer, speech="compact", name="tiny")).save(folder)
    return folder


def test_a_small_network_trains_resumes_and_is_evaluated(base: Path, here: Path) -> None:
    small = ("--groups-per-step", 2, "--group-size", 2, "--set", "micro_batch=4", "--set", "max_message=4",
             "--set", "max_messages=3", "--set", "threads=1", "--set", "max_episode=384", *TASKS)  # fmt: skip
    out = run("train", "--policy", base, "--steps", 1, "--run", "r", *small)
    assert "Success on 2 held-out tasks" in out
    assert "step 1/1" in out
    assert all((here / "r" / name).exists() for name in ("config.json", "metrics.jsonl", "curves.png", "checkpoints"))
    run("train", "--resume", "r", "--steps", 2, "--quiet")
    assert [row["step"] for row in RunFolder("r").rows()] == [0, 1, 2]
    found = run("eval", "--agent", "r", "--json", "e.json")
    assert "r on tiny:heldout, seed 0" in found
    assert json.loads((here / "e.json").read_bytes())["episodes"] == 2  # as many as the run evaluates on


def test_errors_of_a_run_are_one_sentence_too(base: Path) -> None:
    code, _, err = call("train", "--policy", base, "--tasks", "nowhere", "--run", "r")
    assert (code, err.count("\n")) == (2, 1)
    assert "nowhere" in err
    code, _, err = call("train", "--policy", "nowhere/at-all", "--run", "r", "--tasks", "nowhere")
    assert (code, err.count("\n")) == (2, 1)
    with pytest.raises(RodsError, match="is a file"):
        new_folder(base / "config.json", "tiny")
