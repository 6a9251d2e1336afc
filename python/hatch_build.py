"""The hook of the wheel's build: the extension goes into the wheel, the Rust sources into the
source distribution, and the version comes from `Cargo.toml`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import build_extension as extension
finally:
    del sys.path[0]


def version() -> str:
    """The version, for `[tool.hatch.version]`."""
    return extension.version()


class CustomBuildHook(BuildHookInterface[Any]):
    """The hook itself; hatchling looks for this name."""

    #: A file that goes when the source distribution is made.
    note: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepares a target: `version` is `standard`, or `editable` for `pip install -e`."""
        try:
            if self.target_name == "sdist":
                self.sdist(build_data)
            elif self.target_name == "wheel":
                self.wheel(version, build_data)
        except (extension.BuildError, OSError) as error:
            self.app.abort(f"\nerror: {error}\n")

    def sdist(self, build_data: dict[str, Any]) -> None:
        """Takes the Rust sources along, and the commit, as cargo notes it in its own packages."""
        root, files = extension.crate(), build_data["force_include"]
        files.update({str(root / path): f"crate/{path}" for path in extension.sources()})
        if commit := extension.commit():
            with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as note:
                json.dump({"git": {"sha1": commit}}, note)
            self.note = note.name
            files[note.name] = "crate/.cargo_vcs_info.json"

    def finalize(self, *_: Any) -> None:
        """Cleans up."""
        if self.note:
            os.unlink(self.note)

    def wheel(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the extension; an editable install finds it in the tree, beside the module."""
        package = Path(self.root, "src", "ccl_sql")
        editable = version == "editable"
        place, platform = extension.build(package / extension.NAME if editable else None)
        if not editable:
            build_data["force_include"][str(place)] = f"ccl_sql/{extension.NAME}"
        build_data["pure_python"] = False
        # No part of it is compiled for a Python: one wheel for all versions.
        build_data["tag"] = f"py3-none-{platform}"
