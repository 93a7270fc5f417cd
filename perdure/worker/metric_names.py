"""The names of what a worker measures of model calls and tools: the GenAI conventions', as Prometheus writes them."""

TOKENS = "gen_ai_client_token_usage"
MODEL_SECONDS = "gen_ai_client_operation_duration_seconds"
FIRST_CHUNK_SECONDS = "gen_ai_client_operation_time_to_first_chunk_seconds"
TOOL_SECONDS = "gen_ai_execute_tool_duration_seconds"
