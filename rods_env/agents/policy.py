"""Policies: a causal language model of transformers with its tokenizer and chat, by name or from a folder.

    policy = load_policy("tiny")                      # or "smollm2", "Qwen/Qwen2.5-1.5B-Instruct", a folder, a run
    engine = RolloutEngine(policy.sampler(slots=64, max_length=512), policy.chat)
    policy.save("my_policy")

A saved policy is what `save_pretrained` writes, and `rods.json` beside it, which says how the policy speaks. With LoRA
only the adapters are saved, with the name of their base.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods_env.agents.chat import TOOL_DOCS, Chat
from rods_env.agents.loading import (
    MARKS,
    find_device,
    first_line,
    guarded,
    has_tokenizer,
    is_tiny,
    load_model,
    load_tokenizer,
    locate,
    make_chat,
    need,
    quiet,
    read_json,
    with_adapters,
)
from rods_env.errors import RodsError
from rods_env.version import SUITE_VERSION, __version__

if TYPE_CHECKING:
    from rods_env.agents.decoding import Sampler

DTYPES = ("float32", "bfloat16", "float16")
ATTENTIONS = ("auto", "sdpa", "eager")
_TRAIN = "pip install 'rods-env[train]'"


class Policy:
    """A language model that plays.

    Args:
        name: what it is called in tables and errors.
        model: a causal language model of transformers, or one of peft; it is put into evaluation mode.
        tokenizer: its tokenizer.
        chat: of the same tokenizer.
        base: with LoRA, the name or folder that gives the model without its adapters.

    Attributes:
        name, model, tokenizer, chat, base: as given.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, chat: Chat, *, base: str | None = None) -> None:
        self.name = name
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.chat = chat
        self.base = base

    @property
    def parameters(self) -> int:
        """How many numbers the model holds."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def trainable(self) -> int:
        """How many of them are trained: with LoRA, those of the adapters."""
        return sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    @property
    def max_length(self) -> int | None:
        """The most tokens that the model was made to read; None if it does not say."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def sampler(self, *, slots: int, max_length: int, temperature: float = 1.0, top_p: float = 1.0) -> Sampler:
        """What samples messages from this policy; it reads the weights at each call.

        Args:
            slots: how many episodes are played at once.
            max_length: the most tokens of an episode.
            temperature: 0 takes the most likely token.
            top_p: samples among the most likely tokens whose probabilities sum up to this.

        Raises:
            RodsError: for a setting out of range.
        """
        from rods_env.agents.decoding import Sampler

        if self.max_length is not None and max_length > self.max_length:
            raise RodsError(f"{self.name} reads at most {self.max_length} tokens; got a max_length of {max_length}.")
        # Adapters stand inside the layers of the base, whose signature peft's wrapper hides.
        model = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        return Sampler(
            model, self.chat.end_ids, slots=slots, max_length=max_length, temperature=temperature, top_p=top_p
        )

    def save(self, folder: str | os.PathLike[str], *, recipe: Mapping[str, Any] | None = None) -> None:
        """Writes the policy to a folder, which `load_policy` takes as a name.

        It is written under a temporary name beside its place and moved there when it is complete. With LoRA, the
        adapters are written and the base is named, not copied.

        Args:
            folder: where to; it may hold an older policy, which is replaced.
            recipe: how it was made; written as `recipe.json`.

        Raises:
            RodsError: if the folder holds anything else, or cannot be written; what stood there still stands.
        """
        target = Path(os.path.abspath(Path(folder).expanduser()))
        if target.exists() and not (target / MARKS).exists() and (not target.is_dir() or any(target.iterdir())):
            raise RodsError(f"{target} holds something that is not a saved policy: save to another folder.")
        temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:12]}.tmp"
        try:
            temporary.mkdir(parents=True)
            self._write(temporary, recipe)
            _replace(temporary, target)
        except Exception as error:
            if not _is_disk_trouble(error):
                raise
            reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
            raise RodsError(f"cannot save the policy to {target}: {reason}; nothing was changed there.") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, folder: Path, recipe: Mapping[str, Any] | None) -> None:
        options: dict[str, Any] = {}
        if hasattr(self.model, "peft_config"):
            # TRL adds a second adapter, "ref". Embeddings are never trained; peft would ask the hub about them.
            options = {"save_embedding_layers": False, "selected_adapters": ["default"]}
        with quiet():
            self.model.save_pretrained(folder, **options)
            self.tokenizer.save_pretrained(folder)
        marks = {
            "name": self.name, "rods_speech": self.chat.speech, "tool_docs": self.chat.tool_docs, "base": self.base,
            "version": __version__, "suite_version": SUITE_VERSION,
        }  # fmt: skip
        _write_json(folder / MARKS, marks)
        if recipe is not None:
            _write_json(folder / "recipe.json", recipe)


def load_policy(
    name: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    device: str = "auto",
    attention: str = "auto",
    tool_docs: str | None = None,
    lora_rank: int = 0,
    lora_alpha: float = 32.0,
    gradient_checkpointing: bool = False,
    seed: int = 0,
) -> Policy:
    """Loads a policy.

    Args:
        name: "tiny": the base that comes with the package; "smollm2": SmolLM2-135M-Instruct, out of a pip package; a
            folder: of a saved policy, a model of transformers, adapters, or a run, whose newest complete policy is
            taken; else a model of the Hugging Face hub, from the local cache if it is there.
        dtype: "float32", "bfloat16" or "float16": of the weights. LoRA adapters stay float32.
        device: "auto" (a GPU if there is one; this process's own under `accelerate launch`), "cpu", "cuda", "cuda:1", …
        attention: "sdpa" or "eager"; "auto" leaves the choice to transformers. Flash attention cannot read keys and
            values from the places where rollouts keep them.
        tool_docs: "template" or "signatures", see `Chat`; None: as the policy was saved, else "template".
        lora_rank: above 0, the weights are kept as they are and adapters of this rank are trained, on all linear layers
            but the last. Without adapters the model is the reference. A saved policy's adapters are always loaded.
        lora_alpha: the adapters are scaled by `lora_alpha / lora_rank`.
        gradient_checkpointing: activations are computed again in the backward pass instead of kept.
        seed: of new adapters.

    Raises:
        RodsError: if there is no such policy, a part of it is missing, or an option is out of range.
    """
    for option, value, known in (("dtype", dtype, DTYPES), ("attention", attention, ATTENTIONS)):
        if value not in known:
            raise RodsError(f"expected {option} from {', '.join(known)}; got {value!r}.")
    if tool_docs is not None and tool_docs not in TOOL_DOCS:
        raise RodsError(f"expected tool_docs from {', '.join(TOOL_DOCS)}; got {tool_docs!r}.")
    if not isinstance(lora_rank, int) or lora_rank < 0 or not lora_alpha > 0:
        raise RodsError(
            f"lora_rank must be a whole number from 0 on and lora_alpha above 0; got {lora_rank!r} and {lora_alpha!r}."
        )
    for module in ("torch", "transformers"):
        need(module, "policies", _TRAIN)
    where = find_device(device)
    source = locate(str(name))
    marks = read_json(source.folder, MARKS)
    adapter = read_json(source.folder, "adapter_config.json")
    if adapter and lora_rank not in (0, adapter.get("r")):
        raise RodsError(
            f"the adapters in {source.place} have rank {adapter.get('r')}; got lora_rank {lora_rank}: leave it at 0."
        )
    if adapter or lora_rank:
        need("peft", "LoRA", "pip install peft")
    base = locate(str(marks.get("base") or adapter.get("base_model_name_or_path"))) if adapter else source
    title = str(marks.get("name") or name)
    own_tokenizer = source.folder is None or has_tokenizer(source.folder)
    with quiet():
        tokenizer = load_tokenizer(source if own_tokenizer or not adapter else base)
        tiny = is_tiny(source, marks, tokenizer)
        chat = make_chat(tokenizer, tiny, title, tool_docs or marks.get("tool_docs") or "template")
        model = load_model(base, dtype, where, attention, len(tokenizer))
        if gradient_checkpointing:
            # Its name before transformers 5.24.
            enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            guarded(base, "switch on gradient checkpointing of", lambda: enable({"use_reentrant": False}))
        if adapter:
            from peft import PeftModel

            model = guarded(source, "load the adapters of",
                             lambda: PeftModel.from_pretrained(model, source.place, is_trainable=True))  # fmt: skip
        elif lora_rank:
            model = guarded(source, "add adapters to", lambda: with_adapters(model, lora_rank, lora_alpha, seed))
    return Policy(title, model, tokenizer, chat, base=base.place if adapter or lora_rank else None)


def _replace(new: Path, target: Path) -> None:
    """Moves a folder to its place. What stood there is put aside before and removed after."""
    if not target.exists():
        new.rename(target)
        return
    old = target.parent / f".{target.name}.{uuid.uuid4().hex[:12]}.old"
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _is_disk_trouble(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__name__ == "SafetensorError"
