"""Resources that keep a profile's values where a run's configuration sets only some of them.

Dagster takes the default of a field that a run leaves out from the class, so one field set for one
run would put the class's values in place of all others that the profile had set. Here the
configuration schema of a resource carries the values that it was made with, at every depth. A key
stays the name of its variable.

Left out deliberately: lists, which a run replaces as a whole.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from dagster._core.definitions.definition_config_schema import DefinitionConfigSchema


class ProfileDefaults:
    """A mixin, named before Dagster's own base class."""

    @property
    def _config_schema(self) -> "DefinitionConfigSchema":
        """Dagster's hook: the schema that run configuration is checked and completed by."""
        schema: DefinitionConfigSchema = super()._config_schema  # type: ignore[misc]
        field = schema.as_field()
        return type(schema)(_with_defaults(field, field.default_value))


def _with_defaults(field: dg.Field, value: Any) -> dg.Field:  # noqa: ANN401 - of any field
    """The field with ``value`` as its default, and so for each field inside it that it sets."""
    kind: Any = field.config_type
    if isinstance(kind, dg.Shape) and isinstance(value, Mapping):
        inside = {
            name: _with_defaults(one, value[name]) if name in value else one
            for name, one in kind.fields.items()
        }
        kind = type(kind)(inside, description=kind.description)
    return dg.Field(kind, default_value=value, is_required=False, description=field.description)
