"""The trace page: a list of traces and one claim with all that is known of it, as HTML."""
