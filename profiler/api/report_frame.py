"""Show the report of a recording in a frame, as notebooks do."""

from __future__ import annotations

import html
import io

from ..export import html as report
from ..export.request import ExportRequest
from ..recording.recording import Recording

HEIGHT_PX = 600


def report_frame(recording: Recording) -> str:
    """Return HTML that shows the report of a recording in a frame."""
    file = io.BytesIO()
    report.write(ExportRequest(recording), file)
    text = html.escape(file.getvalue().decode(), quote=True)
    return (
        f'<iframe srcdoc="{text}" sandbox="allow-scripts" width="100%" height="{HEIGHT_PX}"'
        ' style="border:0"></iframe>'
    )
