/** A delivery as it is stored that has been due for a minute, with no attempt made. */
export function pendingDelivery(_id: string) {
  const past = new Date(Date.now() - 60_000);
  return {
    _id,
    eventId: 'evt_1',
    webhookId: 'wh_1',
    userId: 'usr_1',
    type: 'payment.completed',
    test: false,
    state: 'pending' as const,
    attempt: 1,
    maxAttempts: 6,
    starts: 0,
    lease: null,
    attempts: [],
    dueAt: past,
    claimableAt: past,
    createdAt: past,
  };
}
