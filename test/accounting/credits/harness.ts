import type { Connection } from 'mongoose';
import { CreditService } from '../../../src/accounting/credits.ts';
import { createAccountingModels } from '../../../src/accounting/model.ts';
import { createPaymentService } from '../../../src/accounting/payments.ts';
import { createWriteAccount } from '../../../src/accounting/write-account.ts';
import type { CreditOptions } from '../../../src/index.ts';
import { startEvents, type TestEvents } from '../../events/harness.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';

export type { CreditService };

/** The payment service alone, over the events of a test; without `credits`, payments are only booked. */
export async function startPayments(
  connection: Connection,
  { publish, transaction }: Pick<TestEvents, 'publish' | 'transaction'>,
  credits?: CreditService,
) {
  const { payments } = createAccountingModels(connection, 'gateway_');
  await payments.createCollection();
  const service = (given: TestEvents['publish'] = publish) =>
    createPaymentService({
      payments,
      publish: given,
      writeAccount: createWriteAccount(transaction),
      ...(credits && { credits }),
    });
  return { service, recorded: () => payments.countDocuments() };
}

/** The credit service alone, in a database of its own: as many processes as are asked for. A token costs a credit. */
export async function startCredits() {
  const { connection, drop } = await freshDatabase();
  const events = await startEvents(connection);
  const { accounts, ledger } = createAccountingModels(connection, 'gateway_');

  function newService(options: Partial<CreditOptions> = {}): CreditService {
    return new CreditService({
      accounts,
      ledger,
      publish: events.publish,
      writeAccount: createWriteAccount(events.transaction),
      options: { prices: { '*': { input: 1_000_000 } }, ...options },
      logger: silentLogger,
    });
  }

  await buildIndexes(connection, accounts, ledger);
  return {
    connection,
    events,
    newService,
    ledgerOf: (userId: string) => ledger.find({ userId }).lean(),
    /** Charges for usage records as counting does, by number and credits: the same number is the same record. */
    charge(
      service: CreditService,
      userId: string,
      records: readonly (readonly [number: number, credits: number, holder?: string | undefined])[],
    ) {
      const none = { model: 'm', cachedInputTokens: 0, outputTokens: 0, images: 0 };
      const charged = records.map(([number, inputTokens, holder]) => ({
        ...none,
        _id: `use_${userId}_${number}`,
        userId,
        inputTokens,
        holder,
      }));
      return events.transaction((session) => service.charge(charged, session));
    },
    /** What the account was told, oldest first. */
    async toldOf(userId: string) {
      const found = await events.events.find({ userId }).sort({ _id: 1 }).lean();
      return found.map(({ type, body }) => ({ type, data: JSON.parse(String(body)).data }));
    },
    drop,
  };
}

export type TestCredits = Awaited<ReturnType<typeof startCredits>>;
