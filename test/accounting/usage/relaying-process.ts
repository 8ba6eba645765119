import express from 'express';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';

/** A process that relays calls of `usr_1` and counts nothing, until it is killed: PROCESS_CONFIG says over which database and upstream. */
const { mongo, baseUrl } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const gateway = await createGateway({
  mongo,
  upstreams: [{ name: 'one', baseUrl }],
  authenticate: () => ({ userId: 'usr_1' }),
});
const { url } = await listen(express().use(gateway.router));
process.on('disconnect', () => process.exit(1));
process.send?.(url);
