"""Makes every call of a plan with the client that openapi-generator has generated, and prints what each has come to."""

import enum
import json
import re
import sys
import typing

import gateway
import pydantic

# The generator takes each value of a deep object for an object.
UNSUPPORTED = {"listChatCompletions": ("metadata",), "listFineTuningJobs": ("metadata",)}


def snake(name):
    """The name that the generator gives to a method or an argument; a word that Python knows begins with `var_` there."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]", "_", name).lower()


def model_in(hint):
    """The generated class that a type hint names, if any."""
    if hasattr(hint, "from_dict"):
        return hint
    return next(filter(None, map(model_in, typing.get_args(hint))), None)


def as_file(name, value):
    return (f"{name}.png", value.encode())


def value_of(name, value, hint, files):
    """The value as the generated method takes it."""
    if name in files:
        return [as_file(name, item) for item in value] if isinstance(value, list) else as_file(name, value)
    model = model_in(hint)
    return model.from_dict(value) if model and isinstance(value, dict) else value


def written(value):
    """What the client has read, as JSON; its own `to_dict` leaves out what is only read."""
    if hasattr(value, "actual_instance"):
        return written(value.actual_instance)
    if isinstance(value, pydantic.BaseModel):
        fields = type(value).model_fields.items()
        described = {field.alias or name: getattr(value, name) for name, field in fields}
        undescribed = described.pop("additional_properties", {})
        return written({**described, **undescribed})
    if isinstance(value, dict):
        return {key: written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    # what is no JSON has no fields
    return None if isinstance(value, bytes) else value


def make(client, call):
    name = re.sub(r"[ -]", "", f"{call['tag']}Api").lower()
    api = next(value for key, value in vars(gateway).items() if key.lower() == name)
    method = getattr(api(client), snake(call["operationId"]))
    hints = {name: hint for name, hint in typing.get_type_hints(method).items() if not name.startswith("_")}
    files = call.get("files", [])
    query = {name: value for name, value in call["query"].items() if name not in UNSUPPORTED.get(call["operationId"], ())}
    given = {**call["path"], **query, **call["header"]}
    if "files" in call:
        given.update(call["body"])
    elif "body" in call:
        body = next(name for name in hints if name not in map(snake, given))
        given[body] = call["body"]
    arguments = {}
    for name, value in given.items():
        argument = snake(name) if snake(name) in hints else f"var_{snake(name)}"
        arguments[argument] = value_of(name, value, hints[argument], files)
    return written(method(**arguments))


def main():
    plan = json.load(sys.stdin)
    configuration = gateway.Configuration(host=plan["url"], access_token=plan["key"])
    client = gateway.ApiClient(configuration)
    for call in plan["calls"]:
        try:
            outcome = {"parsed": make(client, call)}
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"operationId": call["operationId"], **outcome}, default=str))


main()
