"""Calls the gateway with Anthropic's own client, and prints what comes of it."""

import json
import sys

import anthropic

url, key = sys.argv[1:]
client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key=key, max_retries=0)
ask = {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
came = {}


def failure(call):
    try:
        call()
    except anthropic.APIError as error:
        return [type(error).__name__, error.body["error"]["type"]]
    return None


def streamed(**more):
    with client.messages.stream(**ask | more) as stream:
        return stream.get_final_message()


came["message"] = client.messages.create(**ask).content[0].text
came["streamed"] = [streamed().content[0].text, streamed().usage.output_tokens]
came["counted"] = client.messages.count_tokens(model="claude", messages=ask["messages"]).input_tokens
came["models"] = [model.id for model in client.models.list()]
came["broken off"] = failure(lambda: streamed(model="breaks"))
came["overloaded"] = failure(lambda: client.messages.create(**ask | {"model": "overloaded"}))
came["unknown"] = failure(lambda: client.with_options(api_key="wrong").messages.create(**ask))
came["missing"] = failure(lambda: client.messages.create(**ask | {"model": "none"}))
batch = client.messages.batches.create(requests=[{"custom_id": "a", "params": ask}])
came["batch"] = [
    [each.custom_id, each.result.message.content[0].text] for each in client.messages.batches.results(batch.id)
]
print(json.dumps(came))
