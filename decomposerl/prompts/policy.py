"""The prompt that the policy answers with a trace (paper, "Verification Trace Generation").

Takes a prompt file, evidence and claim, gives the messages. The document stands first, so
that rollouts of one claim and claims about one document share a prefix.

Left out deliberately: sampling (it belongs to whoever samples), and reading the trace
(``decomposerl.traces``).
"""

from decomposerl.chat import Message
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile

NAME = "policy"


def policy_messages(prompt: PromptFile, evidence: str, claim: str) -> tuple[Message, ...]:
    """One user message; no tag of ours opens in what comes from the pair.

    Raises:
        ConfigError: the prompt file lacks the section ``prompt``, or its places are not
            ``document`` and ``claim``.
    """
    content = prompt.filled("prompt", document=escaped(evidence), claim=escaped(claim))
    return (Message("user", content),)
