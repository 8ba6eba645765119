"""Translates a second of sound with OpenAI's own client, and prints the events that come."""

import base64
import json
import sys

import openai

url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key)
came = []

with client.realtime.translations.connect(model="m") as connection:
    came.append(connection.recv())
    connection.session.update(session={"audio": {"output": {"language": "pt"}}})
    connection.session.input_audio_buffer.append(audio=base64.b64encode(bytes(48_000)).decode())
    came.append(connection.recv())
    connection.session.close()
    came.append(connection.recv())

print(json.dumps([[type(event).__name__, event.type] for event in came]))
