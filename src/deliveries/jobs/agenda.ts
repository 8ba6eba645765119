/**
 * Agenda, and its storage in MongoDB. The build replaces this module with a bundle of what is used of both (`src/bundle.mjs`): their
 * packages, with those that they need, have 6 MB, most of it builds of luxon that nothing here loads.
 */
export { MongoBackend } from '@agendajs/mongo-backend';
export {
  Agenda,
  type AgendaBackend,
  InMemoryNotificationChannel,
  type Job,
  type JobNotification,
  type JobParameters,
  type JobRepository,
  type NotificationChannel,
  type RemoveJobsOptions,
  toJobId,
} from 'agenda';
