import type { ConnectOptions } from 'mongoose';

export const mongo: ConnectOptions;
