"""
Finds every operation of OpenAI's client by walking its resources, and prints as JSON what a gateway answers to each,
and what the client makes of those that the gateway serves.
"""

import inspect
import json
import re
import sys

import openai
from openai._resource import SyncAPIResource

url, key = sys.argv[1:]
made = []


def record(response):
    response.read()
    made.append(response)


http_client = openai.DefaultHttpxClient(event_hooks={"response": [record]})
client = openai.OpenAI(base_url=url, api_key=key, admin_api_key=key, max_retries=0, http_client=http_client)
messages = [{"role": "user", "content": "Hi"}]
items = [{"type": "message", "role": "user", "content": "Hi"}]
file = ("a.png", b"bytes of a file", "image/png")
# What the calls below have created; the later ones use it.
ids = {}


def kept(name, created):
    ids[name] = created.id
    return created


def first_kept(name, page):
    ids[name] = page.data[0].id
    return page


def served_chat(name, resource):
    return {
        f"{name}.create": lambda: kept("chat", resource.create(model="m", messages=messages, store=True)),
        f"{name}.retrieve": lambda: resource.retrieve(ids["chat"]),
        f"{name}.update": lambda: resource.update(ids["chat"], metadata=None),
        f"{name}.list": lambda: resource.list(),
        f"{name}.messages.list": lambda: resource.messages.list(ids["chat"]),
        f"{name}.delete": lambda: resource.delete(ids["chat"]),
    }


def served_responses(name, resource):
    return {
        f"{name}.create": lambda: kept("response", resource.create(model="m", input="Hi")),
        f"{name}.retrieve": lambda: resource.retrieve(ids["response"]),
        f"{name}.cancel": lambda: resource.cancel(ids["response"]),
        f"{name}.compact": lambda: resource.compact(model="m", input="Hi"),
        f"{name}.input_items.list": lambda: resource.input_items.list(ids["response"]),
        f"{name}.input_tokens.count": lambda: resource.input_tokens.count(model="m", input="Hi"),
        f"{name}.delete": lambda: resource.delete(ids["response"]),
    }


conversations = client.conversations
stores = client.vector_stores
jobs = client.fine_tuning.jobs


def new_upload():
    return client.uploads.create(bytes=15, filename="a.png", mime_type="image/png", purpose="vision")


def new_batch():
    return client.batches.create(
        input_file_id=ids["file"], endpoint="/v1/chat/completions", completion_window="24h"
    )


def in_container():
    return {"container_id": ids["container"]}


def done(nothing):
    """What a call gives that gives nothing: its answer as a text."""
    return made[-1].content.decode() if nothing is None else nothing


session = {"type": "realtime", "model": "m"}


def called(answer):
    """Keeps the id of a call, which a header of its answer has."""
    ids["call"] = made[-1].headers["location"].rsplit("/", 1)[-1]
    return answer


def in_store():
    return {"vector_store_id": ids["store"]}


# A call for each operation that is served, in an order in which each finds what it needs.
SERVED = {
    **served_chat("chat.completions", client.chat.completions),
    **served_chat("beta.chat.completions", client.beta.chat.completions),
    "completions.create": lambda: client.completions.create(model="m", prompt="Hi"),
    "embeddings.create": lambda: client.embeddings.create(model="m", input="Hi", encoding_format="float"),
    "images.generate": lambda: client.images.generate(model="m", prompt="A harbour"),
    "images.edit": lambda: client.images.edit(model="m", prompt="At night", image=file),
    "images.create_variation": lambda: client.images.create_variation(model="m", image=file),
    "audio.speech.create": lambda: client.audio.speech.create(model="m", input="Hi", voice="alloy"),
    "audio.transcriptions.create": lambda: client.audio.transcriptions.create(model="m", file=file),
    "audio.translations.create": lambda: client.audio.translations.create(model="m", file=file),
    "moderations.create": lambda: client.moderations.create(model="m", input="Hi"),
    "models.list": lambda: first_kept("model", client.models.list()),
    "models.retrieve": lambda: client.models.retrieve(ids["model"]),
    **served_responses("responses", client.responses),
    **served_responses("beta.responses", client.beta.responses),
    "conversations.create": lambda: kept("conversation", conversations.create()),
    "conversations.retrieve": lambda: conversations.retrieve(ids["conversation"]),
    "conversations.update": lambda: conversations.update(ids["conversation"], metadata={}),
    "conversations.items.create": lambda: conversations.items.create(ids["conversation"], items=items),
    "conversations.items.list": lambda: first_kept("item", conversations.items.list(ids["conversation"])),
    "conversations.items.retrieve": lambda: conversations.items.retrieve(
        ids["item"], conversation_id=ids["conversation"]
    ),
    "conversations.items.delete": lambda: conversations.items.delete(ids["item"], conversation_id=ids["conversation"]),
    "conversations.delete": lambda: conversations.delete(ids["conversation"]),
    "files.create": lambda: kept("file", client.files.create(file=file, purpose="vision")),
    "files.retrieve": lambda: client.files.retrieve(ids["file"]),
    "files.list": lambda: client.files.list(),
    "files.content": lambda: client.files.content(ids["file"]),
    "files.retrieve_content": lambda: client.files.retrieve_content(ids["file"]),
    "uploads.create": lambda: kept("upload", new_upload()),
    "uploads.parts.create": lambda: kept("part", client.uploads.parts.create(ids["upload"], data=file)),
    "uploads.complete": lambda: client.uploads.complete(ids["upload"], part_ids=[ids["part"]]),
    "uploads.cancel": lambda: client.uploads.cancel(ids["upload"]),
    "vector_stores.create": lambda: kept("store", stores.create(file_ids=[ids["file"]])),
    "vector_stores.retrieve": lambda: stores.retrieve(ids["store"]),
    "vector_stores.update": lambda: stores.update(ids["store"], name="Rivers"),
    "vector_stores.list": lambda: stores.list(),
    "vector_stores.search": lambda: stores.search(ids["store"], query="Hi"),
    "vector_stores.files.create": lambda: kept(
        "store_file", stores.files.create(ids["store"], file_id=ids["file"])
    ),
    "vector_stores.files.retrieve": lambda: stores.files.retrieve(ids["store_file"], **in_store()),
    "vector_stores.files.update": lambda: stores.files.update(ids["store_file"], attributes={"a": "b"}, **in_store()),
    "vector_stores.files.list": lambda: stores.files.list(ids["store"]),
    "vector_stores.files.content": lambda: stores.files.content(ids["store_file"], **in_store()),
    "vector_stores.files.delete": lambda: stores.files.delete(ids["store_file"], **in_store()),
    "vector_stores.file_batches.create": lambda: kept(
        "file_batch", stores.file_batches.create(ids["store"], file_ids=[ids["file"]])
    ),
    "vector_stores.file_batches.retrieve": lambda: stores.file_batches.retrieve(ids["file_batch"], **in_store()),
    "vector_stores.file_batches.list_files": lambda: stores.file_batches.list_files(ids["file_batch"], **in_store()),
    "vector_stores.file_batches.cancel": lambda: stores.file_batches.cancel(ids["file_batch"], **in_store()),
    "vector_stores.delete": lambda: stores.delete(ids["store"]),
    "containers.create": lambda: kept("container", client.containers.create(name="Rivers", file_ids=[ids["file"]])),
    "containers.retrieve": lambda: client.containers.retrieve(ids["container"]),
    "containers.list": lambda: client.containers.list(),
    "containers.files.create": lambda: kept(
        "container_file", client.containers.files.create(ids["container"], file=file)
    ),
    "containers.files.retrieve": lambda: client.containers.files.retrieve(ids["container_file"], **in_container()),
    "containers.files.list": lambda: client.containers.files.list(ids["container"]),
    "containers.files.content.retrieve": lambda: client.containers.files.content.retrieve(ids["container_file"], **in_container()),
    "containers.files.delete": lambda: done(client.containers.files.delete(ids["container_file"], **in_container())),
    "containers.delete": lambda: done(client.containers.delete(ids["container"])),
    "skills.create": lambda: kept("skill", client.skills.create(files=[file])),
    "skills.retrieve": lambda: client.skills.retrieve(ids["skill"]),
    "skills.update": lambda: client.skills.update(ids["skill"], default_version="1"),
    "skills.list": lambda: client.skills.list(),
    "skills.content.retrieve": lambda: client.skills.content.retrieve(ids["skill"]),
    "skills.versions.create": lambda: client.skills.versions.create(ids["skill"], files=[file]),
    "skills.versions.retrieve": lambda: client.skills.versions.retrieve("1", skill_id=ids["skill"]),
    "skills.versions.list": lambda: client.skills.versions.list(ids["skill"]),
    "skills.versions.content.retrieve": lambda: client.skills.versions.content.retrieve("1", skill_id=ids["skill"]),
    "skills.versions.delete": lambda: client.skills.versions.delete("1", skill_id=ids["skill"]),
    "skills.delete": lambda: client.skills.delete(ids["skill"]),
    "realtime.client_secrets.create": lambda: client.realtime.client_secrets.create(session=session),
    "realtime.translations.client_secrets.create": lambda: client.realtime.translations.client_secrets.create(
        session={"model": "m"}
    ),
    "realtime.calls.create": lambda: called(client.realtime.calls.create(sdp="v=0", session=session)),
    "realtime.calls.accept": lambda: done(client.realtime.calls.accept(ids["call"], **session)),
    "realtime.calls.refer": lambda: done(client.realtime.calls.refer(ids["call"], target_uri="tel:+14155550123")),
    "realtime.calls.reject": lambda: done(client.realtime.calls.reject(ids["call"])),
    "realtime.calls.hangup": lambda: done(client.realtime.calls.hangup(ids["call"])),
    "beta.realtime.sessions.create": lambda: client.beta.realtime.sessions.create(model="m"),
    "beta.realtime.transcription_sessions.create": lambda: client.beta.realtime.transcription_sessions.create(),
    "batches.create": lambda: kept("batch", new_batch()),
    "batches.retrieve": lambda: client.batches.retrieve(ids["batch"]),
    "batches.list": lambda: client.batches.list(),
    "batches.cancel": lambda: client.batches.cancel(ids["batch"]),
    "fine_tuning.jobs.create": lambda: kept("job", jobs.create(model="m", training_file=ids["file"])),
    "fine_tuning.jobs.retrieve": lambda: jobs.retrieve(ids["job"]),
    "fine_tuning.jobs.list": lambda: jobs.list(),
    "fine_tuning.jobs.list_events": lambda: jobs.list_events(ids["job"]),
    "fine_tuning.jobs.checkpoints.list": lambda: jobs.checkpoints.list(ids["job"]),
    "fine_tuning.jobs.pause": lambda: jobs.pause(ids["job"]),
    "fine_tuning.jobs.resume": lambda: jobs.resume(ids["job"]),
    "fine_tuning.jobs.cancel": lambda: jobs.cancel(ids["job"]),
    "models.delete": lambda: client.models.delete(jobs.retrieve(ids["job"]).fine_tuned_model),
    "files.delete": lambda: client.files.delete(ids["file"]),
}


def resources(parent, path=()):
    """Every resource of the client, with the way to it."""
    for name, member in inspect.getmembers_static(type(parent)):
        if name.startswith(("_", "with_")) or type(member).__name__ not in ("cached_property", "property"):
            continue
        resource = getattr(parent, name)
        if isinstance(resource, SyncAPIResource):
            yield (*path, name), resource
            yield from resources(resource, (*path, name))


def methods():
    """Every method of the client that makes a request of its own; `stream` and `poll` call others."""
    for path, resource in resources(client):
        for name, method in inspect.getmembers(type(resource), inspect.isfunction):
            function = inspect.unwrap(method)
            makes_request = re.search(r"self\._(get|post|put|patch|delete|get_api_list)\(", inspect.getsource(function))
            if makes_request and not name.startswith("_"):
                yield ".".join((*path, name)), resource, function


def placeholder(parameter):
    is_file = "FileTypes" in str(parameter.annotation) or parameter.name == "video"
    return file if is_file else "id"


def with_placeholders(resource, function):
    """Calls a method with an id or a file wherever it needs one."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    needed = [it for it in parameters if it.default is it.empty or it.name.endswith("_id")]
    return function(resource, **{it.name: placeholder(it) for it in needed})


def requests_of(call):
    """The outcome of a call, with every request that it has made."""
    made.clear()
    outcome = {}
    try:
        outcome["returned"] = call()
    except openai.APIStatusError as error:
        outcome |= {"status": error.status_code, "code": error.code, "message": error.message}
    except Exception as error:
        outcome["error"] = repr(error)
    return outcome | {"requests": [f"{it.request.method} {it.request.url.path}" for it in made]}


def found(name, resource, function):
    outcome = requests_of(lambda: with_placeholders(resource, function))
    outcome.pop("returned", None)
    return {"name": name, **outcome}


def served(call):
    outcome = requests_of(call)
    returned = outcome.pop("returned", None)
    if returned is None:
        return outcome
    sent = made[-1].content
    if isinstance(returned, str):
        return outcome | {"sent": sent.decode(), "returned": returned}
    if hasattr(returned, "to_dict"):
        return outcome | {"sent": json.loads(sent), "returned": returned.to_dict(mode="json")}
    return outcome | {"sent": sent.decode(), "returned": returned.content.decode()}


print(
    json.dumps(
        {
            "operations": [found(*it) for it in methods()],
            "served": {name: served(call) for name, call in SERVED.items()},
        }
    )
)
