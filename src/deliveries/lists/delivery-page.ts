import { refuse } from '../../errors.ts';
import { firstId, isId } from '../../ids.ts';
import { checkPage, checkTimes, type Page } from '../../mongo/list-page.ts';
import type { AttemptRecord, DeliveryDocument, DeliveryState } from '../model.ts';

/** Which deliveries, and which page of them. */
export interface DeliveryPage extends Page {
  readonly webhookId?: string;
  readonly eventId?: string;
  readonly type?: string;
  readonly state?: DeliveryState;
  /** Only of events published at this moment or later. */
  readonly since?: Date;
  /** Only of events published before this moment. */
  readonly until?: Date;
}

/** A delivery in a list, without the responses. */
export type ListedDelivery = Pick<
  DeliveryDocument,
  | '_id'
  | 'eventId'
  | 'webhookId'
  | 'type'
  | 'test'
  | 'state'
  | 'reason'
  | 'maxAttempts'
  | 'dueAt'
  | 'createdAt'
  | 'endedAt'
> & {
  readonly attempts: readonly Omit<AttemptRecord, 'response'>[];
  /** Whether an attempt is under way, by the database's clock. */
  readonly inFlight: boolean;
};

/** A delivery with its responses. */
export type ShownDelivery = ListedDelivery & Pick<DeliveryDocument, 'attempts'>;

/** @throws GatewayError `invalid_value` */
export function checkDeliveryPage(page: DeliveryPage): void {
  const { webhookId, eventId, since, until } = page;
  checkPage(page, 'dlv');
  if (webhookId !== undefined && !isId('wh', webhookId)) {
    refuse('invalid_value', 'webhook_id', 'must be the id of a webhook');
  }
  if (eventId !== undefined && !isId('evt', eventId)) {
    refuse('invalid_value', 'event_id', 'must be the id of an event');
  }
  checkTimes({ since, until });
}

/** The bounds of the ids on a page: ids sort by the time of their event. */
export function idRange({ since, until, after }: DeliveryPage): { $gte: string; $lt?: string } {
  const idAt = (moment: Date) => firstId('dlv', Math.max(0, moment.getTime()));
  const before = [after, until && idAt(until)].filter((bound) => bound !== undefined).sort();
  return { $gte: since ? idAt(since) : 'dlv_', ...(before[0] !== undefined && { $lt: before[0] }) };
}
