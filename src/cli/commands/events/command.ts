import type { Command } from 'commander';
import { apiCommands } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { listEventsCommand } from './list.ts';
import { type PublishStored, publishEventCommand } from './publish.ts';
import { showEventCommand } from './show.ts';
import { eventTypesCommand } from './types.ts';

/** `events`: what happened in an account. */
export function eventsCommand(terminal: Terminal, publishStored: PublishStored): Command {
  return apiCommands('events', 'list and publish events', [
    listEventsCommand(terminal),
    showEventCommand(terminal),
    publishEventCommand(terminal, publishStored),
    eventTypesCommand(terminal),
  ]);
}
