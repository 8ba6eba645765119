import type { Connection } from 'mongoose';
import { createAccountingModels } from '../../../src/accounting/model.ts';
import { UsageService } from '../../../src/accounting/usage-writer.ts';
import { silentLogger } from '../../support/logger.ts';

/**
 * What is recorded of calls, and another process whose time has come to close what the dead left open.
 * @param given `longestCall` and `clockMargin` in milliseconds
 */
export function openUsageRecords(
  connection: Connection,
  given: { readonly longestCall?: number; readonly clockMargin?: number } = {},
) {
  const { usage } = createAccountingModels(connection, 'gateway_');
  const { sweep } = new UsageService({ usage, logger: silentLogger, longestCall: 1_000, ...given });
  return { usage, sweep };
}
