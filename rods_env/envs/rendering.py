"""What `render` shows: the conversation with the gold calls ticked off, or the graph of the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rods_env.tasks.drawing import figure, pixels

if TYPE_CHECKING:
    from rods_env.envs.tool_use import Snapshot

_WHO = {"system": "system", "user": "user", "assistant": "agent", "tool": "result"}


def done_calls(snapshot: Snapshot) -> set[int]:
    """The gold calls whose very result the agent has seen, in order of the story."""
    seen = {(m["name"], m["content"]) for m in snapshot.transcript if m["role"] == "tool"}
    return {index for index, step in enumerate(snapshot.task.gold.steps) if (step.tool.name, step.text) in seen}


def text(snapshot: Snapshot) -> str:
    """The conversation so far, and each turn with its gold calls ticked off."""
    done, task = done_calls(snapshot), snapshot.task
    lines = [f"task {task.id} ({task.kind}), turn {min(snapshot.turn + 1, len(task.turns))} of {len(task.turns)}, "
             f"progress {snapshot.progress:.2f}", ""]  # fmt: skip
    for message in snapshot.transcript:
        if message["role"] != "system":
            content = message["content"]
            lines.append(f"{_WHO[message['role']]:>7}: {content if len(content) < 400 else content[:400] + ' …'}")
    lines.append("")
    index = 0
    for number, turn in enumerate(task.turns):
        if number > snapshot.turn and snapshot.termination is None:
            break  # what the user is going to ask is not shown before it is asked
        state = ""
        if number < len(snapshot.passed):
            state = "passed" if snapshot.passed[number] else "failed"
        lines.append(f"turn {number + 1}: {state or 'open'}")
        for call in turn.calls:
            lines.append(
                f"   [{'x' if index in done else ' '}] {call.tool}" + ("" if call.spoken else "  (to find something)")
            )
            index += 1
    return "\n".join(lines)


def picture(snapshot: Snapshot) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The graph of the task with what is done, H x W x 3 bytes."""
    return pixels(figure(snapshot.task, done_calls(snapshot), mark_done=True))
