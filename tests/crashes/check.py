"""What must hold of the state that a crash left."""

from __future__ import annotations

from pathlib import Path

from commands import STEPS, Command, steps
from place import Place, Wrong, left


class Checker:
    """Checks states of one command."""

    def __init__(self, place: Place, command: Command, before: Path, after: Path) -> None:
        self.place, self.command = place, command
        self.asked: set[object] = set()
        # States with a trace that was refused.
        self.refused = 0
        # Those that only `--force` mends.
        self.forced = 0
        self.output: bytes | None = None
        if command.output:
            self.output = (after / command.output).read_bytes()
        self.was: set[bytes | None] = {None}
        if command.replaces and command.output:
            self.was = {(before / command.output).read_bytes()}
        # What the next command says where nothing crashed.
        self.said = self.go_on(after) if command.given == command.next else None
        world = place.world(after, command.data)
        if world != command.worlds[-1] and command.given != command.next:
            raise Wrong(f"the command leaves {world}")

    def go_on(self, root: Path) -> str:
        """Runs the next command, which must not fail."""
        if self.command.next == ("PLAN",):
            steps(self.place, root, len(STEPS))
            return ""
        return self.place.done(root, *self.command.full(self.place, root, self.command.next))

    def check(self, root: Path, is_kill: bool, is_end: bool) -> None:
        """Checks one state, and what the next command makes of it."""
        command, place = self.command, self.place
        world = place.world(root, command.data)
        is_lost = {t for t, version in world.items() if version == "refused"}
        if is_lost and command.scratch and not is_kill:
            self.refused += 1
        else:
            allowed = command.worlds[-1:] if is_end and not command.scratch else command.worlds
            if world not in allowed:
                raise Wrong(f"there is {world}, and may be {' or '.join(map(str, allowed))}")
            self.ask(root, world)
        self.outputs(root, is_end)
        said = self.go_on(root)
        if self.said is not None and said != self.said:
            raise Wrong("the next command says something else than without a crash")
        self.outputs(root, True, again=True)
        world = place.world(root, command.data)
        if world not in command.then and command.scratch and not is_kill:
            # Bytes that are missing where sizes are right: nothing looks at each byte.
            self.forced += 1
            place.done(root, *command.full(place, root, (*command.next, "--force")))
            world = place.world(root, command.data)
        if world not in command.then:
            raise Wrong(f"the next command leaves {world}")
        over = left(root, command.stays)
        if over:
            raise Wrong(f"the next command leaves behind {', '.join(map(shown, over[:3]))}")

    def ask(self, root: Path, world: dict[str, str]) -> None:
        """The program finds each trace, and its rows: asked once of what is the same."""
        command, place = self.command, self.place
        manifests = [
            (root / command.data / f"trace={name}" / "manifest.json").read_bytes() for name in world
        ]
        key = (tuple(world.items()), tuple(manifests))
        if key in self.asked:
            return
        listed = place.listed(root, command.data)
        if listed != set(world):
            raise Wrong(f"`list traces` says {sorted(listed)}")
        for name, version in world.items():
            if place.content(root, command.data, name) != place.rows[version]:
                raise Wrong(f"the rows of {name} are not those of a clean ingest")
        if command.alias and command.alias[0] in world:
            place.done(root, "--data", command.data, "show", command.alias[1])
        self.asked.add(key)

    def outputs(self, root: Path, is_end: bool, again: bool = False) -> None:
        """The file that the command writes is whole, or as before."""
        if not self.command.output:
            return
        path = root / self.command.output
        data = path.read_bytes() if path.exists() else None
        allowed = {self.output} if is_end else {*self.was, self.output}
        if again and not self.command.same:
            allowed.add(data or b"")
        if data not in allowed:
            size = "is missing" if data is None else f"has {len(data)} bytes"
            raise Wrong(f"{self.command.output} {size}")


def shown(path: str) -> str:
    """A path without the numbers that differ from run to run."""
    return "".join("N" if c.isdigit() else c for c in path)
