import type { Command } from 'commander';
import { apiCommands } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { listDeliveriesCommand } from './list.ts';
import { recoverCommand } from './recover.ts';
import { resendCommand } from './resend.ts';
import { showDeliveryCommand } from './show.ts';
import { tailCommand } from './tail.ts';

/** `deliveries`: what became of each event at each webhook. */
export function deliveriesCommand(terminal: Terminal): Command {
  return apiCommands('deliveries', 'see what became of events, and send them again', [
    listDeliveriesCommand(terminal),
    showDeliveryCommand(terminal),
    tailCommand(terminal),
    resendCommand(terminal),
    recoverCommand(terminal),
  ]);
}
