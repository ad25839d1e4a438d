"""The prompt that the policy answers with a trace (paper, "Verification Trace Generation").

The document comes first, so rollouts of one claim and claims about one document share a prefix.
"""

from decomposerl.chat import Message
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile

NAME = "policy"


def policy_messages(prompt: PromptFile, evidence: str, claim: str) -> tuple[Message, ...]:
    """One user message, with evidence and claim escaped.

    Raises:
        ConfigError: the prompt file lacks the section ``prompt``, or its placeholders are not
            ``document`` and ``claim``.
    """
    content = prompt.filled("prompt", document=escaped(evidence), claim=escaped(claim))
    return (Message("user", content),)
