import mongoose from 'mongoose';

/** Matches an account's documents that follow `after`. It is marked as trusted for hosts that switch `sanitizeFilter` on. */
export function inAccountAfter(userId: string, after: string | undefined) {
  return after === undefined ? { userId } : { userId, _id: mongoose.trusted({ $gt: after }) };
}
