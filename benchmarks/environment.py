"""An environment for what hoptrail is only measured beside."""

import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent


def in_own_environment(*packages: str) -> bool:
    """Run again in an environment that has `packages` too, if this one lacks any; its making touches no other.

    Says whether that was done; exits where it ended with an error.
    """
    try:
        for package in packages:
            version(package)
    except PackageNotFoundError:
        folder = HERE / ".venv"
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
        host = next(p for p in sys.path if p.endswith("site-packages"))
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "host.pth").write_text(f"{host}\n{HERE.parent}\n")
        options = (
            "--quiet",
            "--constraint",
            HERE.parent / "constraints.txt",
            "--requirement",
            HERE / "requirements.txt",
        )
        subprocess.run([python, "-m", "pip", "install", *options], check=True)
        code = subprocess.run([python, *sys.argv], check=False).returncode
        if code:
            sys.exit(code)
        return True
    return False
