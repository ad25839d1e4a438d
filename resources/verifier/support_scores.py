"""P(supported) in two forms, and a memory that keeps both.

A hosted model gives a probability mass of yes and one of no. ``raw`` is the mass of yes, as
the public MiniCheck code and its leaderboard take it; ``normalised`` is its share of the
two, yes / (yes + no), and 0 where neither was likely. Both are stored at the first answer,
so a change of form asks nothing.

Left out deliberately: asking (``resources.verifier.minicheck_hosted``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from resources.store.stored_engine import Details, Pair, ResultStores
from resources.verifier.stored import StoredVerifier

Score = Literal["raw", "normalised"]
Story = Callable[[], str]
"""What became of the server behind an engine; empty while it is well, or not known."""
_KEPT = "What was answered is kept; run again for the rest"


@dataclass(frozen=True, slots=True)
class SupportScores:
    """Both forms, float64, shape (n,), range 0..1; NaN where no answer came."""

    raw: NDArray[np.float64]
    normalised: NDArray[np.float64]

    def chosen(self, score: Score) -> NDArray[np.float64]:
        """One of the two."""
        return self.raw if score == "raw" else self.normalised


class TwoFormVerifier(Protocol):
    """An engine that gives both forms and counts the questions without an answer."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port, without the choice of form."""
        ...

    @property
    def failures(self) -> Mapping[str, int]:
        """Questions without an answer so far, by reason."""
        ...

    def support_forms(self, pairs: Sequence[Pair]) -> SupportScores:
        """Both forms of each ``(evidence, claim)`` pair."""
        ...

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The raw form."""
        ...


class StoredForms(StoredVerifier):
    """A ``Verifier`` that stores both forms and answers with one of them."""

    _port = "verifier_forms"

    def __init__(  # noqa: PLR0913 - a port's four, and the two of this one
        self,
        engine: TwoFormVerifier,
        store: ResultStores,
        batch_size: int = 256,
        details: Details = dict,
        *,
        score: Score = "raw",
        story: Story = str,
    ) -> None:
        """``score`` is the form that ``support_probability`` gives.

        ``story`` is asked for after a question without an answer: where it tells that the
        server is gone, no further batch is sent.
        """
        super().__init__(engine, store, batch_size, details)
        self._score, self._story = score, story

    @property
    def engine(self) -> str:
        """The engine's name and the form; the stored results of both forms are the same."""
        return f"{self._inner.engine}:{self._score}"

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The chosen form, shape (n,), range 0..1.

        Raises:
            EngineError: a pair got no answer; all that were answered are stored by then.
        """
        found = self.support_forms(pairs).chosen(self._score)
        refuse_unanswered(found, self._inner, self._story)
        return found

    def support_forms(self, pairs: Sequence[Pair]) -> SupportScores:
        """Both forms, stored ones first; NaN where the engine gave no answer just now.

        Raises:
            EngineError: the server is gone; the batch in which it went is stored by then.
        """
        import pyarrow as pa

        out = np.full((2, len(pairs)), np.nan)

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            for form, column in zip(out, ("raw", "normalised"), strict=True):
                form[rows] = values.field(column).to_numpy(zero_copy_only=False)

        unanswered = 0

        def ask(batch: list[Pair]) -> tuple[NDArray[np.int64], Any]:
            nonlocal unanswered
            if unanswered and (told := self._story()):
                raise EngineError(f"verifier '{self._inner.engine}': {_KEPT}. {told}")
            forms = self._forms(batch)
            answered = np.flatnonzero(~np.isnan(forms.raw))
            unanswered += len(batch) - len(answered)
            columns = [pa.array(form[answered]) for form in (forms.raw, forms.normalised)]
            return answered, pa.StructArray.from_arrays(columns, ["raw", "normalised"])

        self._shelf = self._shelf or self._store.shelf(self._port, self._inner.engine)
        positions = self._pass(pairs, tuple, fill, ask)
        return SupportScores(out[0][positions], out[1][positions])

    def _forms(self, batch: list[Pair]) -> SupportScores:
        try:
            forms: SupportScores = self._inner.support_forms(batch)
        except EngineError as error:
            told = self._story()
            if not told:
                raise
            raise EngineError(f"{error}. {told}") from error
        return forms


def refuse_unanswered(
    found: NDArray[np.float64], engine: TwoFormVerifier, story: Story = str
) -> None:
    """Raise where a pair has no probability; a verifier leaves none out.

    Raises:
        EngineError: says how many of the pairs, why, and what became of the server.
    """
    count = int(np.isnan(found).sum())
    if count:
        reasons = ", ".join(f"{name} {times}" for name, times in sorted(engine.failures.items()))
        raise EngineError(
            f"verifier '{engine.engine}': {count} of {len(found)} pairs got no answer (failed "
            f"questions: {reasons}). {_KEPT}" + (f". {told}" if (told := story()) else "")
        )
