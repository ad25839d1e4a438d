"""Resources whose run configuration completes itself from the profile.

Dagster takes the default of a field that a run omits from the class, so setting one field for a
run would reset all others that the profile had set. Here a resource's configuration schema has
its own values as defaults, at every depth. Lists are replaced as a whole.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg


class ProfileDefaults:
    """A mixin, named before Dagster's own base class."""

    @property
    def _config_schema(self) -> Any:  # noqa: ANN401 - Dagster's hook
        """The schema that run configuration is checked and completed by."""
        schema = super()._config_schema  # type: ignore[misc]
        field = schema.as_field()
        return type(schema)(_with_defaults(field, field.default_value))


def _with_defaults(field: dg.Field, value: Any) -> dg.Field:  # noqa: ANN401 - of any field
    """The field with ``value`` as its default, and the same for the fields inside it."""
    kind: Any = field.config_type
    if isinstance(kind, dg.Shape) and isinstance(value, Mapping):
        inside = {
            name: _with_defaults(one, value[name]) if name in value else one
            for name, one in kind.fields.items()
        }
        kind = type(kind)(inside, description=kind.description)
    return dg.Field(kind, default_value=value, is_required=False, description=field.description)
