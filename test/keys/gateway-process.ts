import express from 'express';
import { createGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';

/** A gateway in a process of its own: PROCESS_CONFIG says over which database and with which secret key. */
const { mongo, secretKey } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const gateway = await createGateway({ mongo, secretKeys: [secretKey] });
const { url } = await listen(express().use(gateway.router));
process.on('disconnect', () => process.exit(1));
process.send?.(url);
