"""The build step of a wheel: compiles the native library into it, where there is a compiler.

`pip install .` gets the one for this machine's instructions, `make wheels` those of all machines of an architecture,
which `SPECEXTEND_WHEEL` names. Without a compiler the wheel has none, and the first run compiles it if it can.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SETS = {
    "x86_64": ("avx512-amx", "avx512-bf16", "avx512-vnni", "avx512", "avx2-vnni", "avx2", "portable"),
    "aarch64": ("neon-dotprod", "portable"),
}


class NativeBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Hatchling's hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add what was compiled to the wheel."""
        if version == "editable" or platform.system() != "Linux":
            return
        sys.path.insert(0, self.root)
        from specextend_cli.engine.native.shared_library import (
            SOURCES,
            CannotCompileError,
            compiler,
            file_name,
            flags_of,
            instructions,
        )

        machine = os.environ.get("SPECEXTEND_WHEEL")
        directory = Path(self.directory) / "native"

        def compiled(name: str) -> Path:
            made = directory / file_name(name, machine or platform.machine())
            static = ("-static-libstdc++", "-static-libgcc") if machine else ()
            command = [*compiler(), *flags_of(name), *static, str(SOURCES[-1]), "-o", str(made)]
            subprocess.run(command, check=True, capture_output=machine is None)
            return made

        try:
            directory.mkdir(parents=True, exist_ok=True)
            with ThreadPoolExecutor() as pool:
                files = list(pool.map(compiled, _SETS[machine] if machine else (instructions(),)))
        except (CannotCompileError, OSError, subprocess.CalledProcessError) as error:
            if machine:
                raise
            self.app.display_warning(f"without native code, which the first run compiles if it can: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine or platform.machine()}"
        build_data["force_include"].update(
            {str(file): f"specextend_cli/engine/native/lib/{file.name}" for file in files}
        )
