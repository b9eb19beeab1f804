"""What a run of the tests says where there is no browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_run_without_a_browser_says_so_at_its_end(tmp_path):
    here = Path(__file__).with_name("test_fit_page.py")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(here), "-k", "on_paper"],
        env={"PATH": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "HOME": str(tmp_path)},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Browser tests skipped: 1, since there is none of chromium, chromium-browser on the PATH." in run.stdout
