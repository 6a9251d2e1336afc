"""What a run of the program did to files: its system calls, as operations on inodes.

`strace` prints every call with all bytes that were written. Paths and descriptors are resolved
here, so that what follows knows of inodes and entries of folders alone.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,read,write,pwrite64,writev,pwritev,"
    "ftruncate,truncate,fallocate,copy_file_range,sendfile,mmap,"
    "link,linkat,symlink,symlinkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,"
    "fsync,fdatasync,sync,syncfs,sync_file_range,io_uring_setup,execve"
)


class Unknown(Exception):
    """A call that the model knows nothing of: it would replay something else."""


class Untraceable(Exception):
    """Why nothing can be recorded here."""


@dataclass
class Inode:
    """A file or a folder, as it was when the recording began."""

    number: int
    is_folder: bool
    data: bytes = b""
    entries: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entries:
    """Entries of folders that change in one step: the inode of each, None where it is gone."""

    changes: tuple[tuple[int, str, int | None], ...]
    call: str


@dataclass(frozen=True)
class Data:
    """Bytes that are written at an offset, or the size that a file is given."""

    inode: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class Sync:
    """What was done to inodes before operation `begun` is on the disk now; all, where none is
    named.
    """

    inode: int | None
    begun: int


Op = Entries | Data | Sync


@dataclass
class Recording:
    """The inodes at the start, the first of which is the root, and what was done."""

    inodes: list[Inode]
    ops: list[Op]
    exit_code: int
    said: str


def scanned(root: Path) -> list[Inode]:
    """The inodes below a folder."""
    inodes = [Inode(0, True)]
    known: dict[tuple[int, int], int] = {}

    def scan(folder: Path, into: Inode) -> None:
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            if entry.is_symlink():
                raise Unknown(f"{entry.path} is a link")
            status = entry.stat(follow_symlinks=False)
            key = (status.st_dev, status.st_ino)
            if key not in known:
                known[key] = len(inodes)
                inode = Inode(len(inodes), entry.is_dir())
                inodes.append(inode)
                if inode.is_folder:
                    scan(Path(entry.path), inode)
                else:
                    inode.data = Path(entry.path).read_bytes()
            into.entries[entry.name] = known[key]

    scan(root, inodes[0])
    return inodes


STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


def strings(text: str) -> list[bytes]:
    """The strings of a call."""
    out = []
    for found in STRING.finditer(text):
        if found.group(2):
            raise Unknown(f"a string that strace cut: {text[:80]}")
        out.append(bytes.fromhex(found.group(1).replace("\\x", "")))
    return out


@dataclass
class Open:
    """What a descriptor is of, and where it stands."""

    inode: int
    at: int = 0
    appends: bool = False


class Follower:
    """Follows calls through the files below a folder, which the process runs in."""

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        self.inodes = scanned(root)
        self.ops: list[Op] = []
        # As they are now; those of `inodes` stay what they were.
        self.entries = {i.number: dict(i.entries) for i in self.inodes if i.is_folder}
        self.sizes = {i.number: len(i.data) for i in self.inodes if not i.is_folder}
        self.open: dict[int, Open] = {}
        self.count = len(self.inodes)

    def place(self, path: bytes, folder: int | None) -> tuple[int, str] | None:
        """The folder and the name that a path ends in; None where it is no matter of ours."""
        text = os.fsdecode(path)
        if os.path.isabs(text) or folder is None:
            text = os.path.normpath(os.path.join(self.root, text))
            if text == self.root:
                return (0, "")
            if not text.startswith(self.root + "/"):
                return None
            at, parts = 0, text[len(self.root) + 1 :].split("/")
        else:
            at, parts = folder, os.path.normpath(text).split("/")
        for part in parts[:-1]:
            if part == "..":
                raise Unknown(f"a path through ..: {text}")
            found = self.entries.get(at, {}).get(part)
            if found is None:
                return None
            at = found
        return (at, parts[-1])

    def inode(self, place: tuple[int, str] | None) -> int | None:
        if place is None:
            return None
        return 0 if place == (0, "") else self.entries.get(place[0], {}).get(place[1])

    def folder_of(self, text: str) -> int | None:
        """The folder that a descriptor in front of a path means; None: that of the process."""
        if text.startswith("AT_FDCWD"):
            return None
        found = self.open.get(int(text))
        return found.inode if found else -1

    def change(self, call: str, *changes: tuple[int, str, int | None]) -> None:
        for folder, name, inode in changes:
            if inode is None:
                del self.entries[folder][name]
            else:
                self.entries[folder][name] = inode
        self.ops.append(Entries(tuple(changes), call))

    def made(self, is_folder: bool) -> int:
        number = self.count
        self.count += 1
        self.inodes.append(Inode(number, is_folder))
        if is_folder:
            self.entries[number] = {}
        else:
            self.sizes[number] = 0
        return number

    def written(self, inode: int, offset: int, data: bytes) -> None:
        if data:
            self.sizes[inode] = max(self.sizes[inode], offset + len(data))
            self.ops.append(Data(inode, offset, data))

    def sized(self, inode: int, size: int) -> None:
        if self.sizes[inode] != size:
            self.sizes[inode] = size
            self.ops.append(Data(inode, size, None))

    def opened(self, given: list[str], text: str, result: int, call: str) -> None:
        at = 1 if call == "openat" else 0
        folder = self.folder_of(given[0]) if at else None
        flags = "O_CREAT|O_TRUNC|O_WRONLY" if call == "creat" else given[at + 1]
        place = self.place(strings(text)[0], folder) if folder != -1 else None
        if place is None:
            self.open.pop(result, None)
            return
        inode = self.inode(place)
        if "O_TMPFILE" in flags:
            raise Unknown(text[:200])
        if inode is None:
            inode = self.made(False)
            self.change("creat", (*place, inode))
        elif "O_TRUNC" in flags:
            self.sized(inode, 0)
        self.open[result] = Open(inode, 0, "O_APPEND" in flags)

    def renamed(self, call: str, given: list[str], text: str) -> None:
        paths = strings(text)
        has_folders = call != "rename"
        places = [
            self.place(path, self.folder_of(given[2 * n]) if has_folders else None)
            for n, path in enumerate(paths)
        ]
        source, target = places
        if source is None and target is None:
            return
        if source is None or target is None:
            raise Unknown(f"a rename out of the root: {paths}")
        ours, theirs = self.inode(source), self.inode(target)
        if ours is None:
            raise Unknown(text[:200])
        if call == "renameat2" and "RENAME_EXCHANGE" in given[-1]:
            self.change("exchange", (*source, theirs), (*target, ours))
        elif source != target and ours != theirs:
            self.change("rename", (*source, None), (*target, ours))

    def did(self, call: str, text: str, result: int, begun: int) -> None:
        """One call that was done."""
        given = [part.strip() for part in STRING.sub("", text).split(",")]
        if call in ("open", "openat", "creat"):
            self.opened(given, text, result, call)
        elif call in ("dup", "dup2", "dup3") or (call == "fcntl" and "F_DUPFD" in text):
            file = self.open.get(int(given[0]))
            if file:
                self.open[result] = file
            else:
                self.open.pop(result, None)
        elif call in ("mkdir", "mkdirat", "unlink", "rmdir", "unlinkat"):
            folder = self.folder_of(given[0]) if call.endswith("at") else None
            place = self.place(strings(text)[0], folder) if folder != -1 else None
            if place and call.startswith("mkdir"):
                self.change("mkdir", (*place, self.made(True)))
            elif place:
                self.change("unlink", (*place, None))
        elif call.startswith("rename"):
            self.renamed(call, given, text)
        elif call in ("link", "linkat"):
            paths = strings(text)
            inode = self.inode(self.place(paths[0], None))
            target = self.place(paths[1], None)
            if target is not None:
                if inode is None:
                    raise Unknown(f"a link from outside: {paths}")
                self.change("link", (*target, inode))
        elif call in ("symlink", "symlinkat", "truncate", "io_uring_setup"):
            if any(self.place(path, None) for path in strings(text)) or call.startswith("io"):
                raise Unknown(text[:200])
        elif call in ("sync", "syncfs"):
            self.ops.append(Sync(None, begun))
        elif call != "execve":
            self.did_to_open(call, given, text, result, begun)

    def did_to_open(self, call: str, given: list[str], text: str, result: int, begun: int) -> None:
        """One call on a descriptor."""
        if call == "mmap":
            file = self.open.get(int(given[4]))
            if file and "MAP_SHARED" in text and "PROT_WRITE" in text:
                raise Unknown("bytes that are written through memory")
            return
        if not re.fullmatch(r"\d+", given[0]) or int(given[0]) not in self.open:
            if call in ("sendfile", "copy_file_range"):
                to = given[0] if call == "sendfile" else given[2]
                if int(to) in self.open:
                    raise Unknown("bytes that the kernel copied")
            return
        file = self.open[int(given[0])]
        if call == "read":
            file.at += result
        elif call == "lseek":
            file.at = result
        elif call in ("write", "writev"):
            data = b"".join(strings(text))[:result]
            at = self.sizes[file.inode] if file.appends else file.at
            self.written(file.inode, at, data)
            file.at = at + result
        elif call in ("pwrite64", "pwritev"):
            offset = int(given[-1])
            self.written(file.inode, offset, b"".join(strings(text))[:result])
        elif call == "ftruncate":
            self.sized(file.inode, int(given[1]))
        elif call == "fallocate" and given[1] == "0":
            end = int(given[2]) + int(given[3])
            self.sized(file.inode, max(end, self.sizes[file.inode]))
        elif call in ("fsync", "fdatasync"):
            self.ops.append(Sync(file.inode, begun))
        elif call in ("fallocate", "sendfile", "copy_file_range"):
            raise Unknown(text[:200])
        # `sync_file_range` promises nothing of sizes or entries, and so nothing at all.


def calls(lines: Iterator[str], follower: Follower) -> None:
    """Follows the lines of strace. A call that others interrupted is done where it is resumed;
    a sync takes what was done before it began.
    """
    waiting: dict[str, tuple[str, int]] = {}
    programs = 0
    for line in lines:
        thread, _, text = line.rstrip("\n").partition(" ")
        text = text.strip()
        begun = len(follower.ops)
        if text.endswith("<unfinished ...>"):
            text = text.removesuffix("<unfinished ...>")
            waiting[thread] = (text, begun)
            # Its number is free from now on.
            if text.startswith("close("):
                follower.open.pop(int(text[6:].rstrip(") ")), None)
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text, re.DOTALL)
        was_interrupted = resumed is not None
        if resumed:
            first, begun = waiting.pop(thread)
            text = first + resumed.group(1)
        found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+|\?|0x[0-9a-f]+)", text, re.DOTALL)
        if not found:
            continue
        call, given, result = found.groups()
        if result.startswith("-") or result == "?":
            continue
        programs += call == "execve"
        if programs > 1:
            raise Unknown("a second program")
        if call == "close":
            if not was_interrupted:
                follower.open.pop(int(given), None)
            continue
        follower.did(call, given, int(result, 0), begun)


def record(
    command: list[str], root: Path, log: Path, inject: str | None, env: dict[str, str]
) -> Recording:
    """Runs a command in a folder, and says what it did to the files there."""
    follower = Follower(root)
    tracer = ["strace", "-f", "-qq", "-xx", "-s", str(1 << 27), "-o", str(log), "-e"]
    tracer += [f"trace={CALLS}"] + (["-e", f"inject={inject}"] if inject else [])
    try:
        ran = subprocess.run(
            [*tracer, *command],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise Untraceable("there is no strace") from None
    if ran.returncode and "ptrace" in ran.stderr.lower():
        raise Untraceable(ran.stderr.strip())
    with log.open() as lines:
        calls(lines, follower)
    log.unlink()
    return Recording(follower.inodes, follower.ops, ran.returncode, ran.stderr)
