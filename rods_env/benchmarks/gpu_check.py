"""Whether training works on the GPU at hand: `python -m rods_env.benchmarks.gpu_check`, ten minutes at most, no hub.

It makes a Qwen2 of about half a billion random weights with a tokenizer of its own and the chat template of Qwen2.5,
lets it learn four tasks by heart until it sometimes succeeds at them (a policy that always fails has nothing to learn
from), and makes two GRPO steps with the settings of the preset `qwen2.5-1.5b`, scaled down. It prints, as JSON, speeds,
memory, and how exact the log-probabilities of rollouts are.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from rods_env.agents.rollout import Rollout, RolloutEngine, Start
from rods_env.errors import RodsError
from rods_env.tasks.task import Task, load_tasks, write_atomically
from rods_env.tasks.tiny_sets import short_tasks

Figures = dict[str, float | str]

EXACT = 1e-4  # float32: by how much log-probabilities of training and rollouts may differ
ROUGH_MEAN, ROUGH_MOST = 0.02, 0.5  # the same in bfloat16, whose numbers have eight binary digits
LEARNED = 0.02  # learning by heart ends at this loss for each token: a third of the episodes succeed then

_TASKS = 4
_MAX_MESSAGE, _MAX_MESSAGES, _MAX_EPISODE = 64, 8, 2048
_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class Size(msgspec.Struct, frozen=True):
    """How large everything is: a Qwen2 and its tokenizer, and how much is played."""

    width: int = 1024
    layers: int = 32
    heads: int = 16
    kv_heads: int = 4
    inner: int = 4096
    words: int = 4096
    slots: int = 256
    episodes: int = 256
    group: int = 16
    decoded: int = 96
    learning_rate: float = 3e-4
    dtype: str = "bfloat16"


LARGE = Size()
SMALL = Size(64, 2, 4, 2, 128, 700, 16, 16, 4, 8, 1e-2, "float32")


def run(*, cpu: bool = False, minutes: float = 10.0, policy: str | None = None, seed: int = 0) -> Figures:
    """All figures, flat, with units in the keys, and the names of what was used.

    - `device`, `dtype`, `parameters`, `torch`.
    - `decode_tokens_per_s`: sampled, with all slots at work; `rollout_tokens_per_s`: in whole episodes.
    - `exact_float32_most`: the largest difference of the log-probabilities of training (a plain forward pass) and of
      rollouts, with a small model; `one_by_one_same`: 1 if episodes played alone have the same tokens as together.
    - `exact_mean`, `exact_most`: the same differences of the policy itself, in its own number type.
    - `learned_loss`, `learn_s`: learning by heart.
    - `step_s` and its parts, `loss`, `grad_norm`, `return_mean`, `zero_variance_share`, `changed`: the two GRPO steps;
      `changed` is the share of parameters that are not what they were.
    - `memory_peak_gb`; `minutes`.

    Args:
        cpu: a tiny model on the CPU, for a test of this check.
        minutes: how long it may take; learning by heart gets at most a third.
        policy: a name for `load_policy`, instead of the model made here. It does not learn by heart.
        seed: of weights, tasks and sampling.

    Raises:
        RodsError: if there is no GPU, or no such policy.
    """
    import torch

    if not cpu and not torch.cuda.is_available():
        raise RodsError("expected a GPU; torch finds none: run this where there is one, or with --cpu for a tiny try.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the small models here are slower with more
    try:
        return _measured(cpu, minutes, policy, seed)
    finally:
        torch.set_num_threads(threads)


def _measured(cpu: bool, minutes: float, policy: str | None, seed: int) -> Figures:
    import torch

    begun = time.perf_counter()
    size, device = (SMALL, "cpu") if cpu else (LARGE, "cuda")
    tasks = list(islice((t for t in short_tasks(seed) if len(t.turns) == 1 and len(t.calls) <= 2), _TASKS))
    figures: Figures = exactness_float32(device, tasks, seed)
    if policy is None:
        one = make_policy(size, device, seed, checkpointing=True)
        figures |= learn(one, tasks, size, begun + 20 * minutes)
    else:
        from rods_env.agents.policy import load_policy

        one = load_policy(policy, dtype=size.dtype, device=device, tool_docs="signatures", gradient_checkpointing=True)
    if not cpu:
        torch.cuda.reset_peak_memory_stats()
    figures |= {
        "policy": one.name, "device": "cpu" if cpu else torch.cuda.get_device_name(),
        "dtype": str(one.model.dtype).removeprefix("torch."), "parameters": float(one.parameters),
        "torch": str(torch.__version__),
    }  # fmt: skip
    figures |= speeds(one, tasks, size, seed)
    figures |= steps(one, tasks, size, seed)
    figures["memory_peak_gb"] = _peak_gb(cpu)
    figures["minutes"] = (time.perf_counter() - begun) / 60
    figures["minutes_allowed"] = minutes
    return figures


def failures(figures: Mapping[str, Any]) -> list[str]:
    """What must hold and does not, as sentences."""
    single = figures["dtype"] == "float32"
    allowed = {
        "exact_float32_most": EXACT, "exact_mean": EXACT if single else ROUGH_MEAN,
        "exact_most": EXACT if single else ROUGH_MOST, "minutes": figures["minutes_allowed"],
    }  # fmt: skip
    said = [
        f"{name} must be at most {most:g}; it is {figures[name]:.3g}."
        for name, most in allowed.items() if not figures[name] <= most
    ]  # fmt: skip
    if not figures["one_by_one_same"]:
        said.append("episodes played alone must have the same tokens as together; they have others.")
    if not math.isfinite(figures["loss"]):
        said.append(f"the loss must be finite; it is {figures['loss']}.")
    if not figures["changed"]:
        said.append("two steps must change the parameters; they are as they were.")
    if figures["zero_variance_share"] == 1:
        said.append("the returns of some group must differ, or nothing is learned; they agree in all groups.")
    return said


# ---------------------------------------------------------------------- the policy


def make_policy(size: Size, device: str, seed: int, *, checkpointing: bool = False) -> Any:
    """A Qwen2 with random weights, a byte-level tokenizer, and the chat template of Qwen2.5 that TRL ships."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rods_env.agents.group_trainer import quiet_trainer
    from rods_env.agents.loading import make_chat
    from rods_env.agents.policy import Policy

    tokenizer = _tokenizer(size.words)
    config = Qwen2Config(
        vocab_size=size.words, hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads, intermediate_size=size.inner, max_position_embeddings=8192,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = Qwen2ForCausalLM(config)
    model = model.to(device, getattr(torch, size.dtype))
    if checkpointing:
        with quiet_trainer():
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return Policy("made", model, tokenizer, make_chat(tokenizer, False, "made", "signatures"))


def _tokenizer(words: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    spec = importlib.util.find_spec("trl")
    if spec is None or spec.origin is None:
        raise RodsError("this check trains with TRL, which is not installed: pip install 'rods-env[train]'.")
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words, special_tokens=list(_CHATML), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator((turn.message for task in load_tasks("seeds") for turn in task.turns), trainer)
    fast: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = (Path(spec.origin).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
    return fast


def learn(policy: Any, tasks: Sequence[Task], size: Size, deadline: float, most: int = 400) -> Figures:
    """Learns the oracle's episodes of the tasks until their loss for each said token is `LEARNED`.

    Args:
        policy: is trained.
        tasks: what is learned, all in every step.
        size: says the learning rate.
        deadline: of `time.perf_counter`.
        most: steps.
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - its usual name

    from rods_env.agents.warmup import demonstrations, padded

    begun = time.perf_counter()
    model = policy.model
    ids, mask = (part.to(model.device) for part in padded(list(demonstrations(policy.chat, tasks, mistakes=0.0))))
    said = mask[:, 1:] == 1
    optimizer = torch.optim.AdamW(model.parameters(), lr=size.learning_rate, betas=(0.9, 0.98))
    loss, step = math.inf, 0
    model.train()
    while loss > LEARNED and step < most and time.perf_counter() < deadline:
        for group in optimizer.param_groups:
            group["lr"] = size.learning_rate * min(1.0, (step + 1) / 20)
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        cost: Any = F.cross_entropy(logits[said].float(), ids[:, 1:][said])
        optimizer.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss, step = float(cost.detach()), step + 1
    model.eval()
    return {"learned_loss": loss, "learn_steps": float(step), "learn_s": time.perf_counter() - begun}


# ---------------------------------------------------------------------- what is measured


def exactness_float32(device: str, tasks: Sequence[Task], seed: int) -> Figures:
    """The checks with a small float32 model: training against rollouts, alone against together."""
    policy = make_policy(msgspec.structs.replace(SMALL, dtype="float32"), device, seed)
    together = _play(policy, tasks, seed, slots=len(tasks))[1]
    alone = [_play(policy, [task], seed, slots=1, first=n)[1][0] for n, task in enumerate(tasks)]
    same = all(a.ids == b.ids for a, b in zip(together, alone, strict=True))
    _, most = difference(policy, together)
    return {"exact_float32_most": most, "one_by_one_same": float(same)}


def speeds(policy: Any, tasks: Sequence[Task], size: Size, seed: int) -> Figures:
    """Sampled tokens a second, and the differences of log-probabilities."""
    from rods_env.benchmarks.rollouts import decode_tokens_per_s

    _play(policy, tasks, seed, slots=len(tasks))  # what is done once is done
    decoding = decode_tokens_per_s(
        policy, tasks, slots=size.slots, tokens=size.decoded, max_length=_MAX_EPISODE
    )
    begun = time.perf_counter()
    engine, rollouts = _play(policy, [tasks[n % len(tasks)] for n in range(size.episodes)], seed, slots=size.slots)
    seconds = time.perf_counter() - begun
    mean, most = difference(policy, rollouts[: 2 * len(tasks)])
    return {
        "decode_tokens_per_s": decoding, "rollout_tokens_per_s": engine.tokens / seconds,
        "rollout_episodes_per_s": len(rollouts) / seconds, "exact_mean": mean, "exact_most": most,
    }  # fmt: skip


def _play(
    policy: Any, tasks: Sequence[Task], seed: int, *, slots: int, first: int = 0
) -> tuple[RolloutEngine, list[Rollout]]:
    """Plays each task once; the noise of the episodes is numbered from `first`."""
    engine = RolloutEngine(
        policy.sampler(slots=slots, max_length=_MAX_EPISODE), policy.chat, max_message=_MAX_MESSAGE,
        max_messages=_MAX_MESSAGES, seed=seed,
    )  # fmt: skip
    return engine, engine.play([Start(task, number=first + n) for n, task in enumerate(tasks)])


def difference(policy: Any, rollouts: Sequence[Rollout]) -> tuple[float, float]:
    """Mean and largest difference of the log-probabilities of sampled tokens, training's against the rollouts' own."""
    import torch

    found: list[Any] = []
    with torch.no_grad():
        for rollout in rollouts:
            ids = torch.tensor([rollout.ids], device=policy.model.device)
            logs = policy.model(input_ids=ids[:, :-1], use_cache=False).logits[0].float().log_softmax(-1)
            ours = torch.tensor(rollout.logprobs[1:], device=logs.device)
            theirs = logs.gather(-1, ids[0, 1:, None])[:, 0]
            sampled = torch.tensor(rollout.mask[1:], device=logs.device) == 1
            found.append((ours - theirs).abs()[sampled])
    differences = torch.cat(found)
    return float(differences.mean()), float(differences.max())


def steps(policy: Any, tasks: Sequence[Task], size: Size, seed: int) -> Figures:
    """Two GRPO steps with the settings of the preset `qwen2.5-1.5b`, scaled down."""
    from rods_env.agents.grpo import GrpoAgent
    from rods_env.agents.settings import make_settings

    settings = make_settings("qwen2.5-1.5b", overrides={
        "steps": 2, "group_size": size.group, "groups_per_step": len(tasks), "slots": size.slots, "seed": seed,
        "curriculum": "fixed", "max_message": _MAX_MESSAGE, "max_messages": _MAX_MESSAGES, "max_episode": _MAX_EPISODE,
        "eval_every": 0, "save_every": 2, "tool_docs": "signatures", "dtype": size.dtype,
        "device": policy.model.device.type, "learning_rate": 1e-4, "threads": 1,
    })  # fmt: skip
    before = [p.detach().to("cpu", copy=True) for p in policy.model.parameters()]
    rows: list[Mapping[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        GrpoAgent(policy, settings, Path(folder) / "run", tasks=tasks, heldout=[]).train(on_row=rows.append)
    changed = sum(
        int((old != p.detach().cpu()).sum()) for old, p in zip(before, policy.model.parameters(), strict=True)
    )
    last = rows[-1]
    names = ("loss", "grad_norm", "return_mean", "tokens_per_s")
    figures = {name: float(last[name]) for name in names}
    times = {f"step_{part}_s": last[f"{part}_s"] for part in ("generate", "environment", "train")}
    times["step_s"] = last["seconds"]
    varied = sum(row["zero_variance_share"] for row in rows) / len(rows)
    return {**figures, **times, "zero_variance_share": varied, "changed": changed / policy.parameters}


def _peak_gb(cpu: bool) -> float:
    if not cpu:
        import torch

        return float(torch.cuda.max_memory_allocated()) / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code: 1 if a check fails, 2 if it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m rods_env.benchmarks.gpu_check", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long it may take")
    parser.add_argument("--policy", metavar="NAME", help="a model or folder, instead of one made here")
    parser.add_argument("--cpu", action="store_true", help="the same, with a tiny model on the CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="saves the figures")
    options = parser.parse_args(arguments)
    try:
        figures = run(cpu=options.cpu, minutes=options.minutes, policy=options.policy, seed=options.seed)
        text = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
        print(text.decode(), end="")
        if options.json is not None:
            write_atomically(options.json, text)
    except RodsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    failed = failures(figures)
    for sentence in failed:
        print(sentence, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
