import { expect } from 'chai';
import OpenAI from 'openai';
import { type Listening, type LiveGateway, listen, startGateway } from '../support/gateway.ts';

describe('an operation of OpenAI that a gateway does not serve', () => {
  let live: LiveGateway;
  let alone: Listening;

  before(async () => {
    live = await startGateway({});
    alone = await listen(live.gateway.router);
  });
  after(async () => {
    await alone?.close();
    await live?.close();
  });

  it('is refused with the endpoints that it serves, where it is alone', async () => {
    const client = new OpenAI({ baseURL: `${alone.url}/v1`, apiKey: live.key, maxRetries: 0 });
    const thrown = await client.fineTuning.jobs.list().catch((error: unknown) => error);
    expect(thrown).to.be.instanceOf(OpenAI.NotFoundError);
    const { code, message } = thrown as InstanceType<typeof OpenAI.NotFoundError>;
    expect(code).to.equal('endpoint_not_served');
    expect(message).to.match(/This gateway does not serve GET \/v1\/fine_tuning\/jobs; the model endpoints are /);
    for (const path of ['/v1/chat/completions', '/v1/audio/speech', '/v1/models', '/v1/models/{model}']) {
      expect(message.split(/[ ,]+/)).to.include(path);
    }
    expect(message).not.to.include('/v1/webhooks');
  });

  it('is left to the host, where it is mounted', async () => {
    const response = await fetch(`${live.url}/v1/fine_tuning/jobs`);
    expect(response.status).to.equal(404);
    expect(await response.text()).to.match(/Cannot GET \/v1\/fine_tuning\/jobs/);
  });
});
