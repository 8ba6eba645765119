import type { UsageRecord } from '../../options/options.ts';
import { isEncoded, isEventStream } from '../headers.ts';
import type { BackgroundResponse, BackgroundResponses } from '../ownership/background-responses.ts';
import type { StoredObject } from '../ownership/stored-objects.ts';
import { ResponseReader } from './ended-response.ts';
import type { StoredRequest } from './stored-call.ts';
import { watchedBody } from './watched-body.ts';

/** Whether this is a response that is made in the background and is not counted. */
export function isUncounted(object: StoredObject | undefined): object is BackgroundResponse {
  return object?.background !== undefined;
}

function recordIn(reader: ResponseReader, { background }: BackgroundResponse): UsageRecord | undefined {
  try {
    return reader.record(background);
  } catch {
    return undefined;
  }
}

/** Counts a response that is made in the background when an answer about it shows its end. The client waits for none of it. */
export function countShownEnd(object: BackgroundResponse, responses: BackgroundResponses): StoredRequest['onSuccess'] {
  return function watch(_upstream, response) {
    const { headers } = response;
    if (isEncoded(headers)) return response;
    // the events of a stream are not looked through: the upstream says it in one piece
    const reader = isEventStream(headers) ? undefined : new ResponseReader();
    const data = watchedBody(response.data, {
      read: (chunk) => reader?.read(chunk),
      onEnd() {
        const record = reader && recordIn(reader, object);
        if (record) void responses.ended(object, record);
        else if (!reader) responses.pollSoon(object);
      },
    });
    return { ...response, data };
  };
}
