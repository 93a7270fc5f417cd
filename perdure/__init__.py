"""perdure runs LLM agents that outlive the process they run in: `.prompty` files as Temporal
workflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:
    # For type checkers; at runtime, the table below defines the same names.
    from .agents import Agent as Agent
    from .arguments import parse_tool_arguments as parse_tool_arguments
    from .client.connection import connect as connect
    from .client.expression import agent as agent
    from .client.invoke import invoke_agent as invoke_agent
    from .client.invoke import invoke_agent_async as invoke_agent_async
    from .client.listing import RunSummary as RunSummary
    from .client.listing import list_runs as list_runs
    from .client.run_input import run_input as run_input
    from .client.runs import get_run as get_run
    from .client.runs import start_run as start_run
    from .client.sessions.session import session as session
    from .client.tokens import CancellationToken as CancellationToken
    from .client.tokens import Steering as Steering
    from .errors import ApprovalError as ApprovalError
    from .errors import CompletionError as CompletionError
    from .errors import ConfigurationError as ConfigurationError
    from .errors import ExecuteError as ExecuteError
    from .errors import GoOnError as GoOnError
    from .errors import GuardrailError as GuardrailError
    from .errors import InvokerError as InvokerError
    from .errors import LimitExceededError as LimitExceededError
    from .errors import LoadError as LoadError
    from .errors import MaxIterationsError as MaxIterationsError
    from .errors import ModelError as ModelError
    from .errors import OutputError as OutputError
    from .errors import PayloadTooLargeError as PayloadTooLargeError
    from .errors import RenderError as RenderError
    from .errors import RunCancelled as RunCancelled
    from .errors import RunError as RunError
    from .errors import RunNotFound as RunNotFound
    from .errors import SessionError as SessionError
    from .errors import ToolArgumentError as ToolArgumentError
    from .errors import ToolNotRegisteredError as ToolNotRegisteredError
    from .errors import UnknownCallError as UnknownCallError
    from .errors import UnsupportedMediaError as UnsupportedMediaError
    from .events import RunEvent as RunEvent
    from .guardrails import GuardrailResult as GuardrailResult
    from .guardrails import Guardrails as Guardrails
    from .guardrails import instructions as instructions
    from .guardrails import prepare_tools as prepare_tools
    from .messages import AudioPart as AudioPart
    from .messages import FilePart as FilePart
    from .messages import ImagePart as ImagePart
    from .messages import Message as Message
    from .messages import Part as Part
    from .messages import TextPart as TextPart
    from .messages import ToolCall as ToolCall
    from .messages import ToolResult as ToolResult
    from .messages import Usage as Usage
    from .options import RunOptions as RunOptions
    from .prompty.load import load as load
    from .prompty.load import load_dict as load_dict
    from .prompty.parse import parse as parse
    from .prompty.portable import agent_to_dict as agent_to_dict
    from .prompty.prepare import prepare as prepare
    from .prompty.prepare import validate_inputs as validate_inputs
    from .prompty.render import Rendered as Rendered
    from .prompty.render import render as render
    from .prompty.worker_limits import WorkerLimits as WorkerLimits
    from .protocol.outcome import RunResult as RunResult
    from .protocol.outcome import RunStatus as RunStatus
    from .protocol.signatures import Voucher as Voucher
    from .providers.base import FunctionDefinition as FunctionDefinition
    from .providers.registry import format_tool_messages as format_tool_messages
    from .providers.registry import process_response as process_response
    from .providers.registry import to_request as to_request
    from .tools.binding import bind_tools as bind_tools
    from .tools.context import ToolContext as ToolContext
    from .tools.decorator import tool as tool
    from .tools.handlers import Toolset as Toolset
    from .trimming import estimate_chars as estimate_chars
    from .trimming import trim_to_context_window as trim_to_context_window
    from .unknown_outcomes import Done as Done
    from .unknown_outcomes import NotDone as NotDone
    from .unknown_outcomes import Unknown as Unknown
    from .worker.assembly import create_worker as create_worker
else:
    from ._lazy import lazy_names

    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "._version": "__version__",
            ".agents": "Agent",
            ".arguments": "parse_tool_arguments",
            ".client.connection": "connect",
            ".client.expression": "agent",
            ".client.invoke": "invoke_agent invoke_agent_async",
            ".client.listing": "RunSummary list_runs",
            ".client.run_input": "run_input",
            ".client.runs": "get_run start_run",
            ".client.sessions.session": "session",
            ".client.tokens": "CancellationToken Steering",
            ".errors": "ApprovalError CompletionError ConfigurationError ExecuteError GoOnError "
            "GuardrailError"
            " InvokerError LimitExceededError LoadError MaxIterationsError ModelError OutputError"
            " PayloadTooLargeError RenderError RunCancelled RunError RunNotFound"
            " SessionError ToolArgumentError ToolNotRegisteredError UnknownCallError"
            " UnsupportedMediaError",
            ".events": "RunEvent",
            ".guardrails": "GuardrailResult Guardrails instructions prepare_tools",
            ".messages": (
                "AudioPart FilePart ImagePart Message Part TextPart ToolCall ToolResult Usage"
            ),
            ".options": "RunOptions",
            ".prompty.load": "load load_dict",
            ".prompty.parse": "parse",
            ".prompty.portable": "agent_to_dict",
            ".prompty.prepare": "prepare validate_inputs",
            ".prompty.render": "render Rendered",
            ".protocol.outcome": "RunResult RunStatus",
            ".providers.base": "FunctionDefinition",
            ".providers.registry": "format_tool_messages process_response to_request",
            ".tools.binding": "bind_tools",
            ".tools.context": "ToolContext",
            ".tools.decorator": "tool",
            ".tools.handlers": "Toolset",
            ".trimming": "estimate_chars trim_to_context_window",
            ".unknown_outcomes": "Done NotDone Unknown",
            ".protocol.signatures": "Voucher",
            ".worker.assembly": "create_worker",
            ".prompty.worker_limits": "WorkerLimits",
        },
    )
