import type { IncomingMessage } from 'node:http';
import type expressModule from 'express';
import type {
  createModelGateway as create,
  EventInput,
  ModelGateway,
  ModelGatewayOptions,
} from 'express-model-gateway';
import type { Model } from 'mongoose';

/** What the fragments in the README and docs are compiled with: what the README's programs have, and what is the reader's own. */
declare global {
  const express: typeof expressModule;
  const app: expressModule.Express;
  const createModelGateway: typeof create;
  const options: ModelGatewayOptions;
  const gateway: ModelGateway;
  const signedInUser: (req: IncomingMessage) => Promise<string | null>;
  const OPENAI_API_KEY: string;
  const SPARE_KEY: string;
  const ANTHROPIC_API_KEY: string;
  const event: EventInput;
  const Invoice: Model<{ _id: number; paid: boolean }>;
}
