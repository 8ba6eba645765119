import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import ts from 'typescript';
import * as gateway from '../src/index.ts';

/** The names in the `export`s of a module. */
async function exportedNames(file: string): Promise<string[]> {
  const url = new URL(file, import.meta.url);
  const { statements } = ts.createSourceFile(file, await readFile(url, 'utf8'), ts.ScriptTarget.Latest);
  return statements.flatMap((statement) => {
    const clause = ts.isExportDeclaration(statement) ? statement.exportClause : undefined;
    return clause && ts.isNamedExports(clause) ? clause.elements.map(({ name }) => name.text) : [];
  });
}

describe('the public surface', () => {
  it('is these names and no others', () => {
    expect(Object.keys(gateway).sort()).to.deep.equal([
      'GatewayError',
      'createModelGateway',
      'defaultRetryDelays',
      'hardenServer',
      'keepRawBody',
      'scopes',
    ]);
  });

  it('has these types and no others', async () => {
    expect((await exportedNames('../src/public-types.ts')).sort()).to.deep.equal([
      'AccountDetails',
      'AccountPage',
      'AccountSummary',
      'AccountUsage',
      'AccountWebhook',
      'ApiKey',
      'ApiKeyInput',
      'ApiKeyPatch',
      'Backlog',
      'Budget',
      'BudgetUsage',
      'CheckResult',
      'CreditOptions',
      'Delivery',
      'DisabledWebhook',
      'EndpointOptions',
      'ErrorBody',
      'ErrorCode',
      'EventInput',
      'EventTypeOptions',
      'ExceededReport',
      'FailedDelivery',
      'FailingWebhooksPage',
      'FilterValue',
      'Filters',
      'GatewayHealth',
      'GatewayNotifications',
      'LimitOptions',
      'Logger',
      'MadeSecret',
      'Metadata',
      'ModelAnswer',
      'ModelCall',
      'ModelGateway',
      'ModelGatewayOptions',
      'ModelHooks',
      'NewApiKey',
      'NewWebhook',
      'NotificationListener',
      'PastEvent',
      'Percentiles',
      'Principal',
      'ProcessInfo',
      'ProcessRole',
      'PublishOptions',
      'PublishedEvent',
      'Quota',
      'QuotaOptions',
      'RateLimits',
      'RateLimitsFor',
      'Refusal',
      'RefusalCount',
      'RefusalQuery',
      'RefusalReport',
      'Resealed',
      'Scope',
      'SearchResult',
      'SearchResultType',
      'SecretChange',
      'StoredUsage',
      'UpstreamInfo',
      'UpstreamOptions',
      'UpstreamTimeouts',
      'UsageLine',
      'UsageQuery',
      'UsageRecord',
      'UsageReport',
      'Webhook',
      'WebhookDetails',
      'WebhookPatch',
    ]);
  });

  it('keeps the schedule of 1 min, 5 min, 30 min, 2 h and 8 h, in milliseconds', () => {
    expect(gateway.defaultRetryDelays).to.deep.equal([60_000, 300_000, 1_800_000, 7_200_000, 28_800_000]);
    expect(() => (gateway.defaultRetryDelays as number[]).push(1)).to.throw(TypeError);
  });
});
