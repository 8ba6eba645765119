import { type Command, Option } from 'commander';
import type { Schemas } from '../../client/api.ts';
import { moment } from '../../client/flags.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** Which deliveries. */
export interface FilterOptions {
  readonly webhook?: string;
  readonly event?: string;
  readonly type?: Schemas['EventType'];
  readonly state?: Schemas['DeliveryState'];
  /** ISO 8601, UTC. */
  readonly since?: string;
  readonly until?: string;
}

/** Every state a delivery can be in. */
const states: Readonly<Record<Schemas['DeliveryState'], true>> = {
  pending: true,
  delivered: true,
  failed: true,
  canceled: true,
};

/** Gives a command the options that say which deliveries it is about. */
export function withFilter(command: Command, { now }: Terminal): Command {
  return command
    .option('--webhook <webhook>', 'only to this one, wh_…')
    .option('--event <event>', 'only of this one, evt_…')
    .option('--type <type>', 'only of events of this type')
    .addOption(new Option('--state <state>', 'only in this state').choices(Object.keys(states)))
    .option('--since <when>', 'made since: a span before now such as 2h, or a time', moment(now))
    .option('--until <when>', 'made before: a span before now, or a time', moment(now));
}

/** The options as the API takes them. */
export function toQuery({ webhook, event, type, state, since, until }: FilterOptions) {
  return {
    ...(webhook && { webhook_id: webhook }),
    ...(event && { event_id: event }),
    ...(type && { type }),
    ...(state && { state }),
    ...(since && { since }),
    ...(until && { until }),
  };
}
