/** Stored events whose bodies have this size, accepted at the same moment and not fanned out. Bytes. */
export function largeEvents(count: number, size: number, acceptedAt: Date) {
  return Array.from({ length: count }, (_, i) => ({
    _id: `evt_${String(i).padStart(4, '0')}`,
    userId: 'usr_1',
    idempotencyKey: `key ${i}`,
    contentHash: '',
    type: 'credits.low',
    test: false,
    created: acceptedAt,
    acceptedAt,
    deliveryKey: Buffer.alloc(16),
    body: Buffer.alloc(size),
    targets: ['wh_1'],
    skipped: [],
    fanOut: 'pending' as const,
    fanOutAt: acceptedAt,
    fanOutLeases: 0,
  }));
}
