"""What the user says: all turns together, with one cast and one story, from the calls that were planned.

A phrase for an argument is built from where its value came from. A value out of the user's head is said; an entity that
the story has mentioned is "it", "that order" or a name; one that has to be found is described by the phrase of the
search that finds it ("my latest order"), whose own arguments are phrased in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rods_env.apis.draw import Draw
from rods_env.apis.lexicon import Cast
from rods_env.apis.registry import Port, fields_of, placeholders
from rods_env.errors import SynthesisError
from rods_env.tasks.picks import picks
from rods_env.tasks.synthesis import Placed
from rods_env.tasks.task import Mention
from rods_env.tasks.text import noun_of, say
from rods_env.tasks.wishes import Source

_SLOT = re.compile(r"\{(\w+)\}('s\b)?")
# What follows "'s" up to a word that begins something else: "'s latest order" in "'s latest order to Oslo".
_OWNED = re.compile(
    r"'s ((?:(?!(?:to|on|for|from|with|in|at|and|by|because|about|of|under|into|as|that|which|who|back|so|before|after"
    r"|until|over|against|instead|leaving|labelled|when|where)\b)[\w~-]+ ?)+)"
)
_PARTICLE = re.compile(r"\b(?:away|down|off|up|out|back|over|aside) $")
_QUESTIONS = ("Could you {}?", "Can you {}?", "Would you {}?", "Could you please {}?")
_REQUESTS = ("Please {}.", "{}, please.", "Please {}.", "{}, please.", "I'd like you to {}.", "{}.")
_OPENERS = ("", "", "", "", "", "", "", "Thanks. ", "Thank you. ", "Great. ", "All right. ", "Okay. ")
_LINKS = ("After that, please {}.", "Then {}, please.", "And please {}.", "Also {}, please.", "Then please {}.")
_TOPICS = ("Something else. ", "One more thing. ", "Now something different. ", "There is something else. ")
_OWNERS = {"me": "my", "it": "its", "them": "their"}
_OF_ME = re.compile(r"the ([\w -]+) of $")
_ONE_MANY = re.compile(r"\b1 (piece|star|night|year|minute|day|place)s\b")
_A_VOWEL = re.compile(r"\b([Aa]) (?=(?!uni|use|one|eu)[aeiou])")
_GREETINGS = (
    "Hi, {} here. ",
    "Hello, this is {}. ",
    "Hi, this is {}. ",
    "Good morning, {} here. ",
    "Hello, my name is {}. ",
)


class Narrator:
    """Tells a plan as messages of one user.

    Args:
        placed: the planned calls.
        cast: the people of the story; the first one speaks.
        draw: the source of chance.
        year: the current year.
    """

    def __init__(self, placed: Sequence[Placed], cast: Cast, draw: Draw, year: str) -> None:
        self.placed = placed
        self.user = cast.user
        self.cast_names = {person.name for person in cast.people}
        self.draw = draw
        self.year = year
        self.known: dict[str, str] = {}  # id of a mentioned entity to its noun, the latest last
        self.told: set[int] = set()  # calls whose results the story has shown or described
        self.last_list: int | None = None
        self.focus: str | None = None  # the entity that "it" would mean
        self.mentions: list[Mention] = []
        self.introduced = False
        self.named: set[str] = set()  # people whose full name was said
        self.no_it = False  # "call it off", but never "call off it"
        self.in_clause: set[str] = set()  # people named in the clause that is being told
        self.clauses = 0
        self.alike: dict[str, tuple[int, set[str]]] = {}  # noun to the last clause with it, and the entities there
        self.frame = ""
        self.turn = 0
        self.heard: dict[str, dict[str, int]] = {}  # noun to entities that were mentioned or implied, and when last
        self.called: set[str] = set()  # entities whose name was said or shown
        self.owned = False  # whether "'s" follows
        self.first_slot = True
        self.as_owner = False  # whether the phrase is for "the date of …"

    def messages(self) -> list[tuple[str, tuple[Mention, ...]]]:
        """The message of each turn with its references.

        Raises:
            SynthesisError: `phrasing`, when something cannot be said without being ambiguous or clumsy.
        """
        turns = self.placed[-1].turn + 1
        found = []
        for turn in range(turns):
            self.mentions, self.turn = [], turn
            topic = turn > 0 and self._new_topic(turn)
            wishes = [i for i, p in enumerate(self.placed) if p.turn == turn and p.spoken]
            alike = len({self.placed[i].tool.reads for i in wishes}) == 1
            clauses = [self._clause(i) for i in wishes]
            opener = self.draw.choice(_TOPICS if topic else _OPENERS) if turn else ""
            mentions = tuple(msgspec.structs.replace(m, text=_polished(m.text)) for m in self.mentions)
            found.append((_polished(opener + self._sentences(clauses, alike)), mentions))
        if self.introduced:
            found[0] = (self.draw.choice(_GREETINGS).format(self.user.name) + found[0][0], found[0][1])
        for text, _ in found:
            if len(text) > 480 or text.count(" of ") > 5:
                raise SynthesisError("a message became too long to be said.", reason="phrasing")
        return found

    def _new_topic(self, turn: int) -> bool:
        """Whether a turn begins with a wish that takes up nothing the story has brought."""
        calls = [i for i, p in enumerate(self.placed) if p.turn == turn]
        first = calls[: next(n for n, i in enumerate(calls) if self.placed[i].spoken) + 1]
        for index in first:
            placed = self.placed[index]
            if any(source.call < first[0] for source in placed.sources.values()):
                return False
            if any(value in self.named or port_kind == "sentence" for port_kind, value in _said_values(placed)):
                return False
        return True

    def _sentences(self, clauses: list[str], alike: bool) -> str:
        """The wishes of a turn as sentences; two that are `alike` (both read, or both write) also as one."""
        draw = self.draw
        if len(clauses) == 1:
            return self._request(clauses[0])
        if len(clauses) == 2 and alike and draw.chance(0.6):
            return self._request(" and ".join(clauses))
        links = draw.shuffled(_LINKS)
        sentences = [self._request(clauses[0])]
        for clause in clauses[1:]:
            link = next(link for link in links if not (_quoted(clause) and link.endswith(", please.")))
            links.remove(link)
            sentences.append(_sentence(link, clause))
        return " ".join(sentences)

    def _request(self, clause: str) -> str:
        """The clause as a request, not in the form of the one before; no question behind a quoted sentence."""
        fitting = [f for f in _REQUESTS if not f.endswith(", please.")] if _quoted(clause) else _REQUESTS + _QUESTIONS
        frames = [f for f in fitting if f != self.frame]
        self.frame = self.draw.choice(frames)
        return _sentence(self.frame, clause)

    def _clause(self, index: int) -> str:
        placed = self.placed[index]
        self.in_clause = set()
        self.clauses += 1
        text = self._fill(index, placed.clause)
        self.told.add(index)
        if self.focus is not None and self.alike[self.known[self.focus]][0] != self.clauses:
            self.focus = None  # the clause was about something else
        row = placed.step.rows[0]
        if placed.tool.many:
            self.last_list = index
            self.focus = None
        elif (key := _id(row)) and (placed.tool.skill == "create" or type(row).CALLED or key not in self.known):
            self._mention(key, noun_of(row))
            self.called.add(key)
        return text

    def _fill(self, index: int, template: str) -> str:
        """The template with a phrase for each slot. A long owner goes behind: "the orders of the one who …"."""
        placed, out, end = self.placed[index], "", 0
        for match in _SLOT.finditer(template):
            if match.start() < end:
                continue
            out += template[end : match.start()]
            self.no_it, self.first_slot = bool(_PARTICLE.search(out)), not end
            self.owned = bool(match[2])
            phrase = self._argument(index, placed.tool.by_name[match[1]])
            end = match.end()
            if not match[2]:
                of = _OF_ME.search(out) if phrase == "me" else None
                out = f"{out[: of.start()]}my {of[1]}" if of else out + phrase  # "the orders of me"
                continue
            owned = _OWNED.match(template, match.end(1) + 1)
            if phrase in _OWNERS:
                out += self._owner(phrase)
            elif len(phrase.split()) <= 3 or not owned:
                out += phrase + "'s"
            else:
                if " of " in phrase or " with " in phrase:
                    raise SynthesisError("whose it is would take too many words.", reason="phrasing")
                out += f"the {owned[1].rstrip()} of {phrase}" + (" " if owned[1].endswith(" ") else "")
                end = owned.end()
        return out + template[end:]

    def _argument(self, index: int, port: Port) -> str:
        placed = self.placed[index]
        source = placed.sources.get(port.name)
        if source is None:
            return self._said(index, port, placed.arguments[port.name])
        row = source.row
        own = source.field == "id"
        if own or (port.kind == "email" and type(row).CALLED):
            return self._entity(index, port, source)
        field = next(f for f in fields_of(type(row)) if f.name == source.field)
        if _id(row):
            if self.focus == row.id and self.first_slot and not type(row).CALLED and field.kind != "date":
                return f"its {field.label}"
            self.as_owner = self.owned = True
            owner = self._entity(index, port, source)
            self.as_owner = False
            if owner in _OWNERS:
                return f"{self._owner(owner)} {field.label}"
            if len(owner.split()) > 4 or " of " in owner:
                raise SynthesisError("whose it is would take too many words.", reason="phrasing")
            if type(row).CALLED == "{name}" and len(owner.split()) <= 2:
                return f"{owner}'s {field.label}"
            return f"the {field.label} of {owner}"
        if source.call in self.told:
            if sum(p.tool is self.placed[source.call].tool for p in self.placed[:index]) > 1:
                raise SynthesisError(f"that {field.label} could be one of several.", reason="ambiguous")
            return f"that {field.label}"
        self.told.add(source.call)
        phrase = self._fill(source.call, self.placed[source.call].tool.spec.rows)
        return phrase if self.placed[source.call].tool.skill == "compute" else f"the {field.label} of {phrase}"

    def _owner(self, pronoun: str) -> str:
        """ "my" for "me", in the text and in the reference that was just noted."""
        if self.mentions and self.mentions[-1].text == pronoun:
            self.mentions[-1] = msgspec.structs.replace(self.mentions[-1], text=_OWNERS[pronoun])
        return _OWNERS[pronoun]

    def _said(self, index: int, port: Port, value: Any) -> str:
        if port.kind == "person" and value == self.user.name and not self.placed[index].spoken:
            self.introduced = True
            self.named.add(value)
            return "me"
        if port.kind == "person":
            return self._name(value, not self.placed[index].spoken)
        return say(port, value, self.year)

    def _name(self, name: str, short: bool = True) -> str:
        """A person: the full name, later the first name, which nobody else of the cast has, or "them"."""
        if short and self.owned and self.in_clause == {name}:
            return "them"
        self.in_clause.add(name)
        if short and name in self.named and name in self.cast_names:
            return name.split(" ", 1)[0]
        self.named.add(name)
        return name

    def _entity(self, index: int, port: Port, source: Source) -> str:
        row, parent = source.row, self.placed[source.call]
        key, noun = row.id, noun_of(row)
        if getattr(row, "name", None) == self.user.name and type(row).CALLED == "{name}":
            self._introduce(source, index)
            return "me"
        if key in self.known:
            again = self._again(row, key, noun)
            if again:
                return self._note(index, port, again, source, "again", key, noun)
        if parent.tool.many:
            return self._one_of(index, port, source, key, noun)
        if parent.tool.reads and not parent.spoken and source.call not in self.told:
            self.told.add(source.call)
            phrase = self._fill(source.call, parent.tool.spec.rows).replace("~", noun)
            self.called.add(key)  # it was found by its name
            return self._note(index, port, phrase, source, "only", key, noun)
        if key in self.known:
            raise SynthesisError(f"{noun} {key} cannot be told from others that were mentioned.", reason="ambiguous")
        phrase = f"the new {noun}" if parent.tool.skill == "create" else f"that {noun}"
        return self._note(index, port, phrase, source, "only", key, noun)

    def _introduce(self, source: Source, index: int) -> None:
        """ "me" needs no describing, but what finds me must be known: my name, said in the greeting."""
        parent = self.placed[source.call]
        if parent.tool.many:
            raise SynthesisError("the user is one row of a list.", reason="phrasing")
        for name in parent.arguments:
            if parent.tool.by_name[name].kind == "person" and not parent.spoken:
                self.introduced = True
            elif source.call not in self.told:
                raise SynthesisError("what finds the user is not a name.", reason="phrasing")
        self.told.add(source.call)

    def _again(self, row: Any, key: str, noun: str) -> str:
        """A phrase for an entity that was mentioned before, or "" where none would be clear."""
        # What was only described has no name that the user knows, unless a list showed it.
        if type(row).CALLED and (type(row).CALLED == "{name}" or key in self.called):
            said = {f.name: say(f, getattr(row, f.name), self.year).strip('"') for f in fields_of(type(row))}
            self.focus = None
            called = type(row).CALLED.format(**said)
            return self._name(called) if type(row).CALLED == "{name}" else called
        if self.focus == key and not self.no_it and self.draw.chance(0.85):
            return "it"
        two = len(self.alike.get(noun, (0, set()))[1]) > 1  # "from my savings account to my joint account"
        heard = self.heard[noun]
        others = any(turn >= self.turn - 1 for k, turn in heard.items() if k != key)
        return f"that {noun}" if heard[key] >= self.turn - 1 and not two and not others else ""

    def _one_of(self, index: int, port: Port, source: Source, key: str, noun: str) -> str:
        parent, row = self.placed[source.call], source.row
        options = [o for o in picks(parent.step.rows, row, self.year) if self.user.name not in o[1]]
        if not options or source.stale:
            raise SynthesisError(f"nothing tells this {noun} from the others.", reason="ambiguous")
        pick, phrase = self.draw.choice(options)
        named = {f"is:{name}" for name in placeholders(type(row).CALLED)}
        if pick in named or parent.spoken:
            self.called.add(key)
        if source.call in self.told and parent.spoken and parent.turn >= self.turn - 1:
            if pick == "only" and parent.turn == self.placed[index].turn:
                raise SynthesisError("nobody knows yet that the list will hold one row.", reason="ambiguous")
            if pick == "only":
                text = f"that {noun}"
            elif self.last_list == source.call and self.focus is None and "~" in phrase and not self.as_owner:
                text = "the " + phrase.replace("~", "one")
            else:
                if [n for i, p in enumerate(self.placed) if i in self.told and p.tool.many and i > source.call
                        for n in [p.tool.record] if n is parent.tool.record]:  # fmt: skip
                    raise SynthesisError("two lists of the same kind were shown.", reason="ambiguous")
                text = "the " + phrase.replace("~", noun)
        else:
            self.told.add(source.call)
            if pick == "only" and " among " in parent.tool.spec.rows:
                phrase = "only ~"
            rows = parent.tool.spec.rows.replace("~", phrase.replace("~", noun))
            text = self._fill(source.call, rows)
        return self._note(index, port, text, source, pick, key, noun)

    def _note(self, index: int, port: Port, text: str, source: Source, pick: str, key: str, noun: str) -> str:
        self.mentions.append(Mention(index, port.name, text, source.call, pick))
        self._mention(key, noun)
        for field in fields_of(type(source.row)):  # "my order for the paper tray" brings the paper tray to mind
            if field.ref and field.name != "id":
                implied = self.heard.setdefault(field.ref.replace("_", " "), {})
                implied[getattr(source.row, field.name)] = self.turn
        return text

    def _mention(self, key: str, noun: str) -> None:
        self.known.pop(key, None)
        self.known[key] = noun
        self.heard.setdefault(noun, {})[key] = self.turn
        clause, keys = self.alike.get(noun, (0, set()))
        self.alike[noun] = (self.clauses, {*keys, key} if clause == self.clauses else {key})
        self.focus = key


def _said_values(placed: Placed) -> list[tuple[str, Any]]:
    """The values of a call that the text gives, with their kinds."""
    return [(placed.tool.by_name[n].kind, v) for n, v in placed.arguments.items() if n not in placed.sources]


def _quoted(clause: str) -> bool:
    """Whether the clause ends with a quoted sentence, behind which neither "?" nor ", please" reads well."""
    return clause.endswith(('."', '?"', '!"'))


def _polished(text: str) -> str:
    """Articles and plurals that depend on what was filled in: "an insurance folder", "1 star"."""
    if "1 " in text:
        text = _ONE_MANY.sub(r"1 \1", text)
    return _A_VOWEL.sub(r"\1n ", text) if "a " in text or "A " in text else text


def _id(row: Any) -> str:
    return getattr(row, "id", "")


def _sentence(frame: str, clause: str) -> str:
    text = frame.format(clause)
    if text.endswith(('.".', '?".', '!".')):  # a quoted sentence ends the request: one full stop is enough
        text = text[:-1]
    return text[0].upper() + text[1:]
