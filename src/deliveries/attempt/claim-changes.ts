import type { UpdateStatement } from '../../mongo/writes/bare-writes.ts';
import type { AttemptRecord, DeliveryDocument } from '../model.ts';
import type { Claim } from './claims.ts';

/** A write to a claimed delivery, fenced by its token. */
export interface Change {
  readonly claim: Claim;
  /** Names what it sets: changes of one name set the same, and are one statement. */
  readonly name: string;
  readonly set: Readonly<Record<string, unknown>>;
  /** The attempt that it records besides. */
  readonly record?: AttemptRecord;
  /** Whether the delivery shows that this change was made, though its lease is gone. */
  readonly isMade: (delivery: DeliveryDocument) => boolean;
}

/** Claims made in one write share their token: only with the delivery's id does it name one. */
const pairOf = ({ claim }: Change) => `${claim.delivery._id} ${claim.token}`;
const storedPair = { $concat: ['$_id', ' ', '$lease.token'] } as const;

/** One statement for changes of one name; for each alone, the server would plan and parse anew. */
function toStatement(changes: readonly [Change, ...Change[]]): UpdateStatement {
  const pairs = { $literal: changes.map(pairOf) };
  const records = { $literal: changes.map(({ record }) => record) };
  const own = { $arrayElemAt: [records, { $indexOfArray: [pairs, storedPair] }] };
  const [{ record, set }] = changes;
  return {
    q: { _id: { $in: changes.map(({ claim }) => claim.delivery._id) }, $expr: { $in: [storedPair, pairs] } },
    u: [{ $set: { ...(record && { attempts: { $concatArrays: ['$attempts', [own]] } }), ...set } }],
    multi: true,
  };
}

/** Changes of many deliveries, as few statements. */
export function toStatements(changes: readonly Change[]): UpdateStatement[] {
  const byName = new Map<string, [Change, ...Change[]]>();
  for (const change of changes) {
    const alike = byName.get(change.name);
    if (alike) alike.push(change);
    else byName.set(change.name, [change]);
  }
  return [...byName.values()].map(toStatement);
}
