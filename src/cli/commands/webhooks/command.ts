import type { Command } from 'commander';
import { apiCommands } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { createWebhookCommand } from './create.ts';
import { deleteWebhookCommand } from './delete.ts';
import { listWebhooksCommand } from './list.ts';
import { rotateSecretCommand } from './rotate-secret.ts';
import { showWebhookCommand } from './show.ts';
import { webhookStatsCommand } from './stats.ts';
import { pauseWebhookCommand, resumeWebhookCommand, updateWebhookCommand } from './update.ts';

/** `webhooks`: where an account's events go. */
export function webhooksCommand(terminal: Terminal): Command {
  return apiCommands('webhooks', "list, create and change your account's webhooks", [
    listWebhooksCommand(terminal),
    showWebhookCommand(terminal),
    webhookStatsCommand(terminal),
    createWebhookCommand(terminal),
    updateWebhookCommand(terminal),
    pauseWebhookCommand(terminal),
    resumeWebhookCommand(terminal),
    rotateSecretCommand(terminal),
    deleteWebhookCommand(terminal),
  ]);
}
