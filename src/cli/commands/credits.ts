import { Command } from 'commander';
import type { Schemas } from '../client/api.ts';
import { ApiCommand } from '../client/api-command.ts';
import { amount } from '../client/flags.ts';
import { detailLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, printable } from '../terminal/text.ts';

const balanceLines = detailLines(({ credits_remaining: left, low_threshold: threshold }: Schemas['Credits']) => [
  ['Left', { text: figure(left), style: left > threshold ? 'green' : left > 0 ? 'yellow' : 'red' }],
  ['Told when below', figure(threshold)],
]);

interface TopUpOptions {
  readonly user: string;
  readonly credits: number;
  readonly idempotencyKey?: string;
}

export function creditsCommand(terminal: Terminal): Command {
  const show = new ApiCommand(terminal, 'show', 'what your account has left')
    .examples('credits', 'credits --json | jq .credits_remaining')
    .shows(({ api }) => api.GET('/v1/credits'), balanceLines);
  const topUp = new ApiCommand(terminal, 'top-up', 'give credits to an account; needs a key with the scope admin')
    .requiredOption('--user <account>', 'which account, such as usr_1')
    .requiredOption('--credits <n>', 'how many to add', amount)
    .option('--idempotency-key <key>', 'add them at most once under this key')
    .examples('credits top-up --user usr_1 --credits 500 --idempotency-key welcome-usr_1')
    .shows(
      ({ api }, { user, credits, idempotencyKey }: TopUpOptions) => {
        const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey };
        return api.POST('/v1/credits/top_ups', { params: { header }, body: { user_id: user, credits } });
      },
      ({ user_id: id, credits: added, credits_remaining: left }) => [
        `Added ${figure(added)}; ${printable(id)} has ${figure(left)} left`,
      ],
    );
  return new Command('credits')
    .description('show the credits your account has left, or top up an account')
    .addCommand(show, { isDefault: true })
    .addCommand(topUp);
}
