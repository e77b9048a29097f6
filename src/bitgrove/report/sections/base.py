"""What a section of the report is."""

from __future__ import annotations

from typing import Any, ClassVar

from bitgrove.report.subject import Subject


class Section:
    """One part of the page. `kind` names what draws it (page/report.js) and is its anchor.

    lead: the sentence or two under the title, for a reader who has not seen such a picture before.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]

    def gather(self, subject: Subject) -> dict[str, Any] | None:
        """What the section shows, as plain values; None: nothing, it is left out."""
        raise NotImplementedError
