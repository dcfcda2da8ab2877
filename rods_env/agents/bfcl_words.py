"""The words of a tiny policy that plays BFCL: its template, and a tokenizer that can write any text.

    <tools>cat(cd(cp(…<user>Go to the 'Documentation' folder.<agent>cd(folder='Documentation')<end><tool>{…}<agent>…

A word has the same pieces wherever it stands, because a space is a piece of its own: what is copied out of a message
into a call is copied piece by piece. The name of a function with its bracket, `cd(`, a keyword with its sign,
`folder=`, and a key of a result are one piece each where they are frequent; digits stand alone; what is unknown falls
apart into bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rods_env.agents.tiny import END, PAD, SPECIAL, UNKNOWN

LENGTH = 1024  # tokens of an episode
_NAMED = 50  # function names count as if each had been met so often
_LEAST = 3  # pairs of pieces that were met less often stay two, unless there are fewer stories

TEMPLATE = (
    "{{ '<tools>' }}{% for tool in tools or [] %}{{ tool.function.name + '(' }}{% endfor %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}{{ '<agent>' + m.content + '<end>' }}"
    "{% elif m.role == 'tool' %}{{ '<tool>' + m.content }}"
    "{% elif m.role == 'user' %}{{ '<user>' + m.content }}"
    "{% else %}{{ raise_exception('the template knows the roles user, assistant and tool only') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<agent>' }}{% endif %}"
)
_KEY = r'"[A-Za-z_]+": '  # of a result
_CUTS = "|".join(
    (
        r"[A-Za-z][A-Za-z_0-9]*\(",  # a function
        r"[A-Za-z][A-Za-z_0-9]*=",  # a keyword
        _KEY,
        r"\p{N}",
        r"\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\p{L}",  # the words of "FinalReport" are two
        rf" ?(?:(?!{_KEY})[^\s\p{{L}}\p{{N}}])+ ?",
        r"\s+",
    )
)


def cut(text: str) -> list[str]:
    """The parts of a text that the tokenizer looks at one by one."""
    return [part for part, _ in _cutter().pre_tokenize_str(text)]


def _cutter() -> Any:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Split(Regex(_CUTS), behavior="isolated")


def make_tokenizer(stories: Iterable[Iterable[str]], functions: Sequence[str] = (), size: int = 2500) -> Any:
    """Makes a byte-level BPE tokenizer of transformers.

    Args:
        stories: their texts. A word counts once for each story in which it stands, however often it is said there: one
            that only a single story has is no piece of its own, as those of stories that nobody has seen are none.
        functions: names that are to be one piece.
        size: most pieces, the 256 bytes and the marks included.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words: list[str] = []
    stories = list(stories)
    for texts in stories:
        words += sorted({part for text in texts for part in cut(text)})
    words += [f"{name}(" for name in functions] * _NAMED
    tokenizer = Tokenizer(models.BPE())
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_cutter(), bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=min(_LEAST, len(stories)), special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.train_from_iterator(words, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, eos_token=END, model_max_length=LENGTH,
        additional_special_tokens=[mark for mark in SPECIAL if mark not in (PAD, UNKNOWN, END)],
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.chat_template = TEMPLATE
    return fast
