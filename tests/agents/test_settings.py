"""Settings of a run: presets, files, overrides, their checks; and the table of docs/training.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rods_env.agents.settings import PRESETS, TrainSettings, assignment, check, differences, make_settings
from rods_env.agents.settings_page import BEGIN, END, meanings, page, table
from rods_env.errors import RodsError

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_complete_and_in_range(preset: str) -> None:
    settings = make_settings(preset)
    assert {name: getattr(settings, name) for name in PRESETS[preset]} == PRESETS[preset]
    assert differences(settings, preset) == {}


def test_tiny_is_the_default() -> None:
    assert make_settings() == make_settings("tiny") != make_settings("smollm2")


FILES = {
    "run.toml": 'steps = 7\nlearning_rate = 1e-5\nreport_to = ["wandb"]\n[curriculum_options]\nmode = "pool"\n',
    "run.yaml": "steps: 7\nlearning_rate: 1e-5\nreport_to: [wandb]\ncurriculum_options:\n  mode: pool\n",
    "run.yml": "steps: 7\nlearning_rate: 0.00001\nreport_to: wandb\ncurriculum_options: {mode: pool}\n",
    "run.json": '{"steps":7,"learning_rate":1e-5,"report_to":["wandb"],"curriculum_options":{"mode":"pool"}}',
}


@pytest.mark.parametrize("name", FILES)
def test_preset_then_file_then_command_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(FILES[name])
    given = {"steps": "9", "curriculum_options.signal": "mean", "environment_options.max_steps": "30"}
    settings = make_settings("smollm2", file, given)
    assert settings.group_size == PRESETS["smollm2"]["group_size"]  # of the preset
    assert (settings.learning_rate, settings.report_to) == (1e-5, ("wandb",))  # of the file
    assert settings.steps == 9  # of the command line
    assert settings.curriculum_options == {"mode": "pool", "signal": "mean"}
    assert settings.environment_options == {"attempts_per_turn": 3, "max_steps": 30}  # a dotted name adds to the table


def test_a_file_may_name_its_preset(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('preset = "smollm2"\nsteps = 1\n')
    assert make_settings(None, file).policy == "smollm2"
    assert make_settings("tiny", file).policy == "tiny"


@pytest.mark.parametrize("preset", PRESETS)
def test_the_configuration_of_a_run_gives_its_settings_again(tmp_path: Path, preset: str) -> None:
    settings = make_settings(preset, None, {"steps": 3, "curriculum_options": {"capacity": None}, "beta": 0.5})
    file = tmp_path / "config.json"
    file.write_bytes(msgspec.json.encode({"settings": settings, "versions": {"rods_env": "0"}}))
    assert make_settings(None, file) == settings
    assert make_settings("smollm2", file) == settings  # whatever it is laid over


def test_differences_name_what_was_changed() -> None:
    settings = make_settings("tiny", None, {"steps": "3", "beta": PRESETS["tiny"]["beta"]})
    assert differences(settings, "tiny") == {"steps": 3}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("steps", "10", 10), ("learning_rate", "2e-4", 2e-4), ("beta", "1", 1.0), ("policy", "5", "5"),
        ("gradient_checkpointing", "true", True), ("gradient_checkpointing", "no", False),
        ("report_to", "wandb, trackio", ("wandb", "trackio")), ("report_to", "", ()),
        ("curriculum_options", '{"mode": "stream"}', {"mode": "stream"}),
        ("curriculum_options.capacity", "null", {"capacity": None}),
        ("curriculum_options.retire", "False", {"retire": False}),
        ("curriculum_options.hard", "0.1", {"hard": 0.1}),
    ],
)  # fmt: skip
def test_texts_become_what_the_setting_is(name: str, text: str, value: Any) -> None:
    found = getattr(make_settings("tiny", None, {name: text}), name.partition(".")[0])
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("steps", "ten", "steps must be a whole number; got 'ten'."),
        ("steps", "1.5", "steps must be a whole number; got '1.5'."),
        ("steps", True, "steps must be a whole number; got True."),
        ("steps", 0, "steps must be at least 1; got 0."),
        ("group_size", 1, "group_size must be at least 2; got 1."),
        ("learning_rate", "fast", "learning_rate must be a number; got 'fast'."),
        ("learning_rate", "nan", "learning_rate must be above 0 and at most 1; got nan."),
        ("learning_rate", 0, "learning_rate must be above 0 and at most 1; got 0.0."),
        ("temperature", "inf", "temperature must be above 0; got inf."),
        ("top_p", 1.5, "top_p must be above 0 and at most 1; got 1.5."),
        ("gradient_checkpointing", "maybe", "gradient_checkpointing must be true or false; got 'maybe'."),
        ("policy", 5, "policy must be text; got 5."),
        ("report_to", 5, "report_to must be names with commas between; got 5."),
        ("dtype", "int8", "dtype must be one of float32, bfloat16, float16; got 'int8'."),
        ("loss", "ppo", "loss must be one of grpo, bnpo, dr_grpo, dapo, luspo; got 'ppo'."),
        ("curriculum", "hard", "curriculum must be one of fixed, dapo, replay, random, fresh, offline, oneshot, "
                               "frontier; got 'hard'."),
        ("curriculum_options", "pool", "curriculum_options must be a table of options, such as "
                                       "curriculum_options.mode=pool; got 'pool'."),
        ("curriculum_options.mod", "pool", "curriculum_options has no 'mod'; did you mean 'mode'?"),
        ("environment_options.tasks", "seeds", "environment_options has no 'tasks'; "),
        ("group_sise", 4, "unknown setting 'group_sise'; did you mean 'group_size'?"),
        ("xyzzy", 4, "unknown setting 'xyzzy'; docs/training.md lists all."),
        ("steps.more", 4, "unknown setting 'steps.more'; "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(RodsError) as error:
        make_settings("tiny", None, {name: value})
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_wrong_presets_and_files(tmp_path: Path) -> None:
    def fails(match: str, preset: str | None, name: str, content: bytes | None) -> None:
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(RodsError, match=match) as error:
            make_settings(preset, file)
        assert "\n" not in str(error.value)

    with pytest.raises(RodsError, match="unknown preset 'huge': expected one of tiny, tiny-bfcl, smollm2"):
        make_settings("huge")
    fails("unknown preset 'huge'", None, "a.toml", b"preset = 'huge'")
    fails("cannot read the settings .*none.toml: No such file", None, "none.toml", None)
    fails("must end in .toml, .yaml or .json", None, "a.ini", b"steps=1")
    fails("cannot be read: .*line 1", None, "a.toml", b"steps = = 1")
    fails("cannot be read", None, "b.toml", b"\xff")
    fails("cannot be read", None, "a.yaml", b"steps: [1\nbeta: }")
    fails("cannot be read", None, "a.json", b"{")
    fails("must be a table of names and values", None, "b.json", b"[1]")
    fails("must be a table of names and values", None, "b.yaml", b"1: 2")
    fails("unknown setting 'step'; did you mean 'steps'", None, "c.toml", b"step = 1")
    fails("steps must be a whole number; got 'many'", None, "d.toml", b"steps = 'many'")


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    for name in ("a.toml", "a.yaml"):
        (tmp_path / name).write_text("")
        assert make_settings(None, tmp_path / name) == make_settings()


def test_assignments() -> None:
    assert assignment("steps=3") == ("steps", "3")
    assert assignment(" tasks = a=b.jsonl ") == ("tasks", "a=b.jsonl")
    for text in ("steps", "=3", ""):
        with pytest.raises(RodsError, match="expected name=value"):
            assignment(text)


def test_every_number_has_a_range() -> None:
    """A negative value is refused for each number, so that none was forgotten."""
    for field in msgspec.structs.fields(TrainSettings):
        if field.type in (int, float):
            with pytest.raises(RodsError, match=f"^{field.name} must be "):
                check(msgspec.structs.replace(TrainSettings(), **{field.name: field.type(-1)}))


# ---------------------------------------------------------------------- the page


def test_every_setting_is_explained_with_its_source() -> None:
    said = meanings()
    assert list(said) == list(TrainSettings.__struct_fields__)
    for name, meaning in said.items():
        assert re.search(r"\[(RODS|TRL|DAPO|ours)\]", meaning), name


def test_the_table_shows_defaults_and_presets() -> None:
    rows = {row.split("`")[1]: row for row in table().splitlines()[2:]}
    assert list(rows) == list(TrainSettings.__struct_fields__)
    assert f"| `100` | tiny: `{PRESETS['tiny']['steps']}`" in rows["steps"]
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows.values())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run `python -m rods_env.agents.settings_page`"
    with pytest.raises(ValueError, match="expected the lines"):
        page(f"{END} {BEGIN}")
