"""What servers mean by the codes and the words of their errors: the kind of a failure, the figures of an overflow.

The codes: https://platform.openai.com/docs/guides/error-codes, https://docs.anthropic.com/en/api/errors,
https://ai.google.dev/gemini-api/docs/troubleshooting and
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..errors import ModelErrorKind

_TOOLS = r"(?:tools?|tool[ _-]?(?:use|calls?|calling|choice)|functions?|function[ _-]?calls?|function[ _-]?calling)"
_QUOTE = r"""[`'"]?"""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_NO_TOOLS = _any_of(
    # Ollama, DeepSeek, xAI, Bedrock, Groq: "… does not support tools", "doesn't support tool use"
    rf"(?:does not|doesn.t|do not|don.t|cannot|can.t) support (?:the |native )?{_QUOTE}{_TOOLS}\b",
    # OpenAI, Azure, Gemini, DeepInfra: "tools is not supported in this model", "Tool calling is not supported"
    rf"\b{_TOOLS}{_QUOTE} (?:is|are) (?:currently )?(?:not (?:supported|enabled)|unsupported|disabled)",
    # OpenRouter: "No endpoints found that support tool use"
    r"no endpoints found that support (?:tool use|.{0,200}tool_choice)",
    # vLLM: '"auto" tool choice requires --enable-auto-tool-choice …'
    # llama.cpp: "tools param requires --jinja flag"
    rf"\b{_TOOLS} (?:param |parameter )?requires? --",
    # llama.cpp, OpenAI: "Unsupported param: tools", "Unrecognized request argument supplied: tools"
    rf"(?:unsupported|unknown|unrecognized|unrecognised) (?:request )?(?:param(?:eter)?|argument|field)s?"
    rf"(?: supplied)?:? {_QUOTE}(?:tools|tool_choice|functions)\b",
    # Novita: "model features function calling not support"
    rf"\b{_TOOLS} not support(?:ed)?\b",
)

_OVERFLOW = _any_of(
    # OpenAI, DeepSeek, vLLM, OpenRouter, llama.cpp, Ollama, litellm, MiniMax, Anthropic's "exceed context limit"
    r"context (?:window|length|size|limit)",
    # LM Studio: "Trying to keep the first 5000 tokens when context the overflows"
    r"context the overflows",
    # Anthropic, Bedrock, Fireworks: "prompt is too long"; GitHub, Groq: "Request (body) too large for model"
    r"\b(?:prompt|input|request|conversation|payload|messages?)(?: body| entity)?(?: is| are)? too (?:long|large)",
    # Gemini, Moonshot, Zhipu: "exceeds the maximum number of tokens", "exceeded model token limit", "… max length"
    r"\bexceed(?:s|ed)? (?:(?:the|its|your|this|model'?s?|max|maximum|allowed|input|prompt) ){0,4}"
    r"(?:number of tokens|tokens?\b|length)",
    # xAI: "maximum prompt length is …"; vLLM: "longer than the maximum model length"
    r"maximum (?:prompt|input|model|sequence) length",
    # SGLang, Mistral, Cohere
    r"\btoo many (?:input |prompt )?tokens",
    # GitHub Copilot: "prompt token count of 70000 exceeds the limit of 64000"
    r"token count .{0,20}exceeds",
    # Cerebras, Groq, OpenAI's limits per minute that are smaller than one request
    r"reduce (?:the length of |your )(?:the |your )?(?:messages?|prompt|input|completion)",
    r"tokens must be reduced",
    # TGI: "`inputs` tokens + `max_new_tokens` must be <= 4096"
    r"`inputs`? (?:tokens \+|must have less than)",
    # Alibaba: "Range of input length should be [1, 129024]"; Zhipu: "tokens in request more than max tokens allowed"
    r"range of input length",
    r"more than max tokens allowed",
    # OpenAI: "Invalid 'messages[3].content': string too long"
    r"'(?:messages|input)\S{0,80}: (?:string|array) too long",
)
_N = r"(?<!\d)(\d{1,3}(?:,\d{3}){1,2}|\d{1,9})(?!\d)"
_LIMITS = (
    re.compile(rf"(?:<=|>|\[1,) ?{_N}"),
    re.compile(
        rf"(?:(?:maximum|max\.?|available) [a-z' ]{{0,40}}|(?:context (?:length|size|window)|limit|exceed|less than)"
        rf"[a-z ]{{0,20}})[ :(=]{{0,3}}{_N}",
        re.IGNORECASE,
    ),
    re.compile(rf"{_N} (?:tokens )?max", re.IGNORECASE),
)
_SUM = re.compile(rf"{_N} \+ {_N}")
_FIGURE = re.compile(rf"(?<![\w.,-]){_N}(?![\w-])")
_PLAUSIBLE = range(100, 10**8)

_REFUSED = _any_of(
    # Azure, OpenAI, Anthropic: "content management policy", "blocked by content filtering policy"
    r"content management policy",
    r"blocked (?:by|due to|because of) (?:our |the )?(?:content|safety|prohibited)",
    # OpenAI, OpenRouter, xAI
    r"(?:was|been|is|were) flagged (?:as|for|by)|\bflagged for ",
    r"violat(?:es?|ing|ed|ion of) (?:our |the )?(?:usage|content|safety|acceptable use) (?:polic|guide)",
    r"rejected (?:as a result of|by) (?:our |the )?safety system",
    # DeepSeek, Moonshot, Alibaba, Zhipu
    r"content exists risk|considered high risk|inappropriate content|不安全或敏感内容",
)
_WRONG_KEY = _any_of(
    # Gemini, xAI
    r"api key (?:is )?(?:not valid|invalid|incorrect)|(?:incorrect|invalid) api key|invalid authorization header",
)
_UNKNOWN_MODEL = _any_of(
    # DeepSeek, OpenRouter, Bedrock
    r"\bmodel (?:does )?not exist|not a valid model\b|\bmodel identifier is invalid",
    # Mistral, Zhipu, MiniMax, Anthropic's imitators
    r"\b(?:invalid|unknown) model(?:[:,.]| name\b| id\b| ['\"`])",
)
"""A wrong key, or a model's name, which some servers refuse with status 400."""
_OUT_OF_QUOTA = _any_of(
    r"credit balance|insufficient (?:credits?|balance|funds|quota)|(?:requires|add) more credits|out of credits",
    r"credits (?:are|have been) (?:depleted|exhausted|used)|(?:used|spent) all (?:your |the )?available credits",
    r"spend(?:ing)? (?:cap|limit)|reached your specified (?:api |workspace )?usage limits|account is in good standing",
    # Gemini: a model that the plan does not have at all
    r"\blimit: 0\b",
)
_MAYBE_OUT_OF_QUOTA = _any_of(r"exceeded your (?:current |monthly )?quota")
"""Also said of a limit per minute, which is then told with the time to wait."""


def _by_code(codes: Mapping[ModelErrorKind, str]) -> Mapping[str, ModelErrorKind]:
    return {code: kind for kind, listed in codes.items() for code in listed.split()}


_DECISIVE = _by_code(
    {
        "quota_exhausted": "billing_error billing_hard_limit_reached billing_not_active contract_spend_limit_reached"
        " enforced_spend_limit_reached insufficient_quota linked_organization_spend_limit_reached insufficient_balance"
        " exceeded_current_quota_error arrearage servicequotaexceededexception",
        "context_length": "context_length_exceeded contextwindowexceedederror exceed_context_size_error"
        " model_max_prompt_tokens_exceeded context_window_exceeded",
        "refusal": "content_filter content_filtered content_policy_violation responsibleaipolicyviolation refusal"
        " moderation_blocked prohibited_content safety blocklist data_inspection_failed datainspectionfailed",
        "overloaded": "overloaded_error engine_overloaded_error modelnotreadyexception",
        "rate_limit": "throttlingexception",
        "authentication": "api_key_invalid invalid_api_key",
    }
)
"""Codes that are more specific than the status that comes with them."""
_BY_CODE = _by_code(
    {
        "server": "api_error server_error internal internalserverexception",
        "authentication": "authentication_error unauthenticated unrecognizedclientexception expiredtokenexception",
        "bad_request": "invalid_prompt invalid_request_error invalid_argument failed_precondition validationexception",
        "context_length": "request_too_large",
        "not_found": "not_found_error not_found model_not_found resourcenotfoundexception",
        "overloaded": "server_overloaded service_unavailable unavailable serviceunavailableexception",
        "permission": "permission_error permission_denied accessdeniedexception",
        "rate_limit": "rate_limit_error rate_limit_exceeded resource_exhausted",
        "timeout": "timeout_error deadline_exceeded modeltimeoutexception",
    }
)
_BY_STATUS: Mapping[int, ModelErrorKind] = {
    400: "bad_request",
    401: "authentication",
    402: "quota_exhausted",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "context_length",
    422: "bad_request",
    429: "rate_limit",
    498: "overloaded",  # Groq
    499: "timeout",
    503: "overloaded",
    504: "timeout",
    524: "timeout",  # Cloudflare
    529: "overloaded",  # Anthropic
}
_ABOUT_THE_REQUEST = frozenset({None, 200, 400, 403, 404, 413, 422, 451})
"""Statuses with which the words of an error may say that the request is too long, or refused."""
_IS_STATUS = re.compile(r"[45]\d\d")
_NEVER_ABOUT_TOOLS = frozenset({401, 402, 403, 408, 413, 429})


def error_kind(status: int | None, codes: Sequence[str], text: str, *, has_wait: bool = False) -> ModelErrorKind:
    """Return the kind of a failure, by all that the server says; `has_wait`: it says when to ask again. Never raises.

    An error that comes with the status of a success, or inside a stream, may have its status among the codes; one
    whose code is unknown is the server's, because the request was accepted.
    """
    if status is None or status < 400:
        status = next((int(code) for code in codes if _IS_STATUS.fullmatch(code)), None)
    if decisive := next((_DECISIVE[code] for code in codes if code in _DECISIVE), None):
        return decisive
    if by_words := _kind_by_words(status, text, has_wait):
        return by_words
    if status is None:
        return next((_BY_CODE[code] for code in codes if code in _BY_CODE), "server")
    return _BY_STATUS.get(status, "server" if status >= 500 else "bad_request")


def _kind_by_words(status: int | None, text: str, has_wait: bool) -> ModelErrorKind | None:
    if status in (None, 400, 402, 403, 429) and _OUT_OF_QUOTA.search(text):
        return "quota_exhausted"
    if _OVERFLOW.search(text) and (status in _ABOUT_THE_REQUEST or overflow_figures(text)[1]):
        return "context_length"
    if status in _ABOUT_THE_REQUEST and _REFUSED.search(text):
        return "refusal"
    if status == 400 and (_WRONG_KEY.search(text) or _UNKNOWN_MODEL.search(text)):
        return "authentication" if _WRONG_KEY.search(text) else "not_found"
    if status == 429 and not has_wait and _MAYBE_OUT_OF_QUOTA.search(text):
        return "quota_exhausted"
    if status not in _NEVER_ABOUT_TOOLS and refuses_tools(text):
        return "no_tools"
    return None


def refuses_tools(text: str) -> bool:
    """Return whether an error's text says that the model, or its server, takes no tools. Never raises.

    A wrong tool, or a wrong conversation, is refused in other words.
    """
    return _NO_TOOLS.search(text) is not None


def overflow_figures(text: str) -> tuple[int | None, int | None]:
    """Return how much the model takes and how much the request had, mostly in tokens, as far as the text says so.

    The second is larger than the first, or None. Never raises.
    """
    limit = next((_figure(found[1]) for each in _LIMITS if (found := each.search(text))), 0)
    if not limit:
        return None, None
    added = [sum(map(_figure, each)) for each in _SUM.findall(text)]
    larger = [each for each in [*map(_figure, _FIGURE.findall(text)), *added] if each > limit]
    return limit, max(larger, default=None)


def _figure(digits: str) -> int:
    """Return the number; 0 for one that is too small or too large to count the tokens of a conversation."""
    number = int(digits.replace(",", ""))
    return number if number in _PLAUSIBLE else 0
