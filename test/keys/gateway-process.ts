import express from 'express';
import { createModelGateway } from '../../src/index.ts';
import { listen, loopbackOptions } from '../support/gateway.ts';

/** A gateway in a process of its own: `tsx gateway-process.ts <MongoDB URI> <secret key>`. */
const [, , mongo = '', secretKey = ''] = process.argv;
const gateway = await createModelGateway({ ...loopbackOptions, mongo, secretKeys: [secretKey] });
const { url } = await listen(express().use(gateway.router));
process.on('disconnect', () => process.exit(1));
process.send?.(url);
