import { GatewayError, refuse } from '../errors.ts';
import { optionalFieldNames, toStored } from './optional-fields.ts';
import type { WebhookPatch } from './webhook.ts';

/**
 * Checks that a webhook may subscribe to these types.
 * @throws GatewayError `invalid_type`, `invalid_value` or `unknown_event_type`, naming the entry
 */
export function checkEvents(events: readonly string[], known: ReadonlySet<string>): void {
  if (!Array.isArray(events)) {
    refuse('invalid_type', 'events', 'must be an array of event types');
  }
  if (events.length === 0) {
    refuse('invalid_value', 'events', 'must name at least one event type');
  }
  events.forEach((type, i) => {
    const param = `events[${i}]`;
    if (!known.has(type)) {
      refuse('unknown_event_type', param, `must be one of ${[...known].join(', ')}`);
    }
    if (events.indexOf(type) < i) {
      refuse('invalid_value', param, `'${type}' is named twice`);
    }
  });
}

const changeable = ['events', 'active', ...optionalFieldNames] as const;

/** The fields of a patch as they are stored; `null` for one that is removed. */
export type Changes = Pick<WebhookPatch, 'events' | 'active'> & ReturnType<typeof toStored>;

/**
 * The changes of a patch, without any unknown fields.
 * @throws GatewayError `missing_required_parameter` for an empty one, or what {@link checkEvents} and {@link toStored} throw
 */
export function toChanges({ events, active, ...patch }: WebhookPatch, known: ReadonlySet<string>): Changes {
  const optional = toStored(patch);
  const isEmpty = Object.keys(optional).length === 0 && patch.headers === undefined;
  if (events === undefined && active === undefined && isEmpty) {
    const message = `At least one of ${changeable.join(', ')} is required`;
    throw new GatewayError('missing_required_parameter', message);
  }
  if (events !== undefined) checkEvents(events, known);
  if (active !== undefined && typeof active !== 'boolean') {
    refuse('invalid_type', 'active', 'must be true or false');
  }
  return { ...(events && { events: [...events] }), ...(active !== undefined && { active }), ...optional };
}

/** The other fields that change when the owner sets `active`: a webhook that is set active again starts afresh. */
export function activationFields(active: boolean | undefined): Readonly<Record<string, unknown>> {
  if (active !== true) return {};
  return { disabled: '$$REMOVE', enabledAt: { $cond: ['$active', '$enabledAt', '$$NOW'] } };
}
