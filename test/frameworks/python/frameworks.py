"""Calls a gateway with OpenAI's client, LangChain and LiteLLM, and prints what each has made of the answers as JSON."""

import json
import os
import sys

# LiteLLM and LangSmith call their makers' servers unless they are told not to.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGSMITH_TRACING="false")

import litellm
import openai
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

url, key = sys.argv[1:]
options = {"base_url": url, "api_key": key, "max_retries": 0}
client = openai.OpenAI(**options)
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
function = {"name": "weather", "description": "The weather of a city", "parameters": parameters}
chat_tools = [{"type": "function", "function": function}]
response_tools = [{"type": "function", "strict": False, **function}]
messages = [{"role": "user", "content": "Hi"}]


def text_and_arguments(stream):
    """The text of a stream of chat completions, and the arguments of its tool call."""
    text = arguments = ""
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            arguments += "".join(call.function.arguments for call in choice.delta.tool_calls or [])
    return text, arguments


def chat_completions(ask, embed):
    """What comes of chat completions; `ask` makes a call, and `embed` returns the vector of a text."""
    return {
        "plain": ask().choices[0].message.content,
        "streamed": text_and_arguments(ask(stream=True))[0],
        "tool": json.loads(ask(tools=chat_tools).choices[0].message.tool_calls[0].function.arguments),
        "streamedTool": json.loads(text_and_arguments(ask(tools=chat_tools, stream=True))[1]),
        "embedding": embed("Hi"),
    }


def openai_chat():
    def ask(**more):
        return client.chat.completions.create(model="m", messages=messages, **more)

    return chat_completions(ask, lambda text: client.embeddings.create(model="m", input=text).data[0].embedding)


def openai_responses():
    def ask(**more):
        return client.responses.create(model="m", input="Hi", **more)

    def streamed(**more):
        with client.responses.stream(model="m", input="Hi", **more) as stream:
            return stream.get_final_response()

    return {
        "plain": ask().output_text,
        "streamed": streamed().output_text,
        "tool": json.loads(ask(tools=response_tools).output[0].arguments),
        "streamedTool": json.loads(streamed(tools=response_tools).output[0].arguments),
    }


def langchain(**more):
    model = ChatOpenAI(model="m", **options, **more)
    with_tool = model.bind_tools(chat_tools)

    def streamed(asked):
        first, *rest = asked.stream("Hi")
        for part in rest:
            first += part
        return first

    return {
        "plain": model.invoke("Hi").text,
        "streamed": streamed(model).text,
        "tool": with_tool.invoke("Weather?").tool_calls[0]["args"],
        "streamedTool": streamed(with_tool).tool_calls[0]["args"],
        # the length of a text is counted with a list of words that is downloaded
        "embedding": OpenAIEmbeddings(model="m", check_embedding_ctx_length=False, **options).embed_query("Hi"),
    }


def lite_llm():
    target = {"api_base": url, "api_key": key, "max_retries": 0}

    def ask(**more):
        return litellm.completion(model="openai/m", messages=messages, **target, **more)

    def embed(text):
        return litellm.embedding(model="openai/m", input=[text], **target).data[0]["embedding"]

    return chat_completions(ask, embed)


RUNS = {
    "OpenAI's client on chat completions": openai_chat,
    "OpenAI's client on responses": openai_responses,
    "LangChain on chat completions": langchain,
    "LangChain on responses": lambda: langchain(use_responses_api=True),
    "LiteLLM": lite_llm,
}


def outcome(run):
    try:
        return run()
    except Exception as error:
        return {"error": repr(error)}


print(json.dumps({name: outcome(run) for name, run in RUNS.items()}))
