"""Makes every call of a plan with the client that openapi-python-client has generated, and prints what each has come to."""

import builtins
import datetime
import enum
import importlib
import io
import json
import keyword
import re
import sys
import typing

from express_model_gateway_client import AuthenticatedClient
from express_model_gateway_client.types import File


def snake(name):
    return re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).lower()


def identifier(name):
    """The name that the generator gives to a module or an argument: a word that Python knows has an underscore."""
    name = snake(name)
    return f"{name}_" if keyword.iskeyword(name) or name in dir(builtins) else name


def as_hinted(hint, value):
    """The value as the type that the generated function asks for."""
    for choice in typing.get_args(hint) or (hint,):
        if not isinstance(choice, type):
            continue
        if isinstance(value, dict) and hasattr(choice, "from_dict"):
            return choice.from_dict(value)
        if isinstance(value, str) and issubclass(choice, enum.Enum) and value in [item.value for item in choice]:
            return choice(value)
        if isinstance(value, str) and issubclass(choice, datetime.datetime):
            return datetime.datetime.fromisoformat(value)
        if isinstance(value, str) and issubclass(choice, datetime.date):
            return datetime.date.fromisoformat(value)
    return value


def as_list(value):
    return value if isinstance(value, list) else [value]


def as_bytes(body, files):
    """The body with the contents of its files as bytes."""
    encoded = lambda value: [item.encode() for item in value] if isinstance(value, list) else value.encode()
    return {name: encoded(value) if name in files else value for name, value in body.items()}


def make(client, call):
    name = snake(call["operationId"])
    module = importlib.import_module(f"express_model_gateway_client.api.{identifier(call['tag'])}.{name}")
    hints = typing.get_type_hints(module.sync_detailed)
    given = {**call["path"], **call["query"], **call["header"]}
    if "body" in call:
        given["body"] = as_bytes(call["body"], call.get("files", []))
    arguments = {}
    for key, value in given.items():
        argument = key if key == "id" else identifier(key)
        arguments[argument] = as_hinted(hints[argument], value)
    for field in call.get("files", []):
        if field in given["body"]:
            value = given["body"][field]
            files = [File(io.BytesIO(item), f"{field}.png", "image/png") for item in as_list(value)]
            setattr(arguments["body"], field, files if isinstance(value, list) else files[0])
    parsed = module.sync_detailed(client=client, **arguments).parsed
    # what is no JSON has no fields
    return parsed.to_dict() if hasattr(parsed, "to_dict") else None if isinstance(parsed, File) else parsed


def main():
    plan = json.load(sys.stdin)
    client = AuthenticatedClient(base_url=plan["url"], token=plan["key"], raise_on_unexpected_status=True)
    for call in plan["calls"]:
        try:
            outcome = {"parsed": make(client, call)}
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"operationId": call["operationId"], **outcome}))


main()
