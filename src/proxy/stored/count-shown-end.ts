import type { UsageRecord } from '../../options/options.ts';
import { isEncoded, isEventStream } from '../headers.ts';
import type { BackgroundResponse, BackgroundResponses } from '../ownership/background-responses.ts';
import type { StoredObject } from '../ownership/stored-objects.ts';
import { endedRecord } from './ended-response.ts';
import type { StoredRequest } from './stored-call.ts';
import { watchedBody } from './watched-body.ts';

/** Whether this is a response that is made in the background and is not counted. */
export function isUncounted(object: StoredObject | undefined): object is BackgroundResponse {
  return object?.background !== undefined;
}

function recordIn(bytes: Buffer | undefined, { background }: BackgroundResponse): UsageRecord | undefined {
  try {
    return bytes && endedRecord(bytes, background);
  } catch {
    return undefined;
  }
}

/** Counts a response that is made in the background when an answer about it shows its end. The client waits for none of it. */
export function countShownEnd(object: BackgroundResponse, responses: BackgroundResponses): StoredRequest['onSuccess'] {
  return function watch(_upstream, response) {
    const { headers } = response;
    if (isEncoded(headers)) return response;
    const isStream = isEventStream(headers);
    const data = watchedBody(response.data, (bytes) => {
      const record = isStream ? undefined : recordIn(bytes, object);
      if (record) void responses.ended(object, record);
      // its events are not looked through: the upstream says it in one piece
      else if (isStream) responses.mayHaveEnded(object);
    });
    return { ...response, data };
  };
}
