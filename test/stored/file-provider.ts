import { File } from 'node:buffer';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { keepConnections, listenOn } from '../support/listen.ts';

interface KeptFile {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly filename: string;
  readonly purpose: string;
}

/** JSON from outside, as far as it is read. */
interface JsonBody {
  readonly name?: string;
  readonly file_id?: string;
  readonly file_ids?: readonly string[];
  readonly part_ids?: readonly string[];
  readonly filename?: string;
  readonly purpose?: string;
  readonly after?: string;
  readonly items?: readonly object[];
}

/** A request that the provider got. */
interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

async function bytesOf(part: unknown): Promise<Buffer> {
  return part instanceof File ? Buffer.from(await part.arrayBuffer()) : Buffer.alloc(0);
}

/** A provider that keeps files, uploads, batches, fine-tuning jobs, models, containers, skills and vector stores in memory, and answers responses and chats with what their bodies were. */
export class FileProvider {
  baseUrl = '';
  /** Of the ids that it gives. */
  prefix = '';
  readonly seen: Seen[] = [];
  readonly bodies: string[] = [];
  /** What is done with an upload in place of keeping it. */
  onUpload: ((req: IncomingMessage, res: ServerResponse) => void) | undefined;
  /** What the answer that makes a batch says besides. */
  newBatch: Readonly<Record<string, unknown>> = {};
  /** What batches say of themselves; a test makes them end. */
  /** What the items of its conversations are. */
  items: readonly object[] = [];
  /** What its responses have as output. */
  output: readonly object[] = [];
  readonly batches = new Map<string, Readonly<Record<string, unknown>>>();
  /** What fine-tuning jobs say of themselves; a test makes them end. */
  readonly jobs = new Map<string, Readonly<Record<string, unknown>>>();
  /** The models of the checkpoints of every job. */
  readonly checkpoints = new Map<string, readonly string[]>();
  /** The models that it lists. */
  readonly models = new Set<string>();
  /** What is done with any other request in place of answering it. */
  onRequest: ((req: IncomingMessage, res: ServerResponse) => void) | undefined;
  readonly #files = new Map<string, { readonly file: KeptFile; readonly content: Buffer }>();
  readonly #containers = new Map<string, Map<string, Buffer>>();
  readonly #skills = new Set<string>();
  readonly #items = new Map<string, { readonly id: string }[]>();
  readonly #parts = new Map<string, Buffer>();
  readonly #stores = new Map<string, Set<string>>();
  readonly #uploads = new Map<string, { readonly filename: string; readonly purpose: string }>();
  #ids = 0;
  readonly #server = createServer((req, res) => {
    this.#answer(req, res).catch(() => res.destroy());
  });

  static async start(): Promise<FileProvider> {
    const provider = new FileProvider();
    keepConnections(provider.#server);
    provider.baseUrl = `http://127.0.0.1:${await listenOn(provider.#server)}/v1`;
    return provider;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #id(prefix: string): string {
    this.#ids += 1;
    return `${this.prefix}${prefix}${this.#ids}`;
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = req;
    const { pathname, searchParams } = new URL(url, 'http://provider');
    this.seen.push({ method, path: url.replace('/v1', ''), headers });
    const isForm = headers['content-type']?.startsWith('multipart/form-data') ?? false;
    if (isForm && this.onUpload) return this.onUpload(req, res);
    if (this.onRequest) return this.onRequest(req, res);
    const bytes = await buffer(req);
    if (!isForm) this.bodies.push(bytes.toString());
    const form = isForm
      ? await new Response(bytes, { headers: headers as Record<string, string> }).formData()
      : undefined;
    const body = !isForm && bytes.length > 0 ? JSON.parse(bytes.toString()) : Object.fromEntries(searchParams);
    const answer = await this.#object(method, pathname.split('/').slice(2), body, form);
    if (answer === undefined)
      res.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"code":"gone"}}');
    else if (Buffer.isBuffer(answer))
      res
        .writeHead(200, {
          'content-type': 'application/octet-stream',
          'content-disposition': 'attachment; filename="a"',
        })
        .end(answer);
    else res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }

  keep(content: Buffer, filename: string, purpose: string, id = this.#id('file-')): KeptFile {
    const file = {
      id,
      object: 'file',
      bytes: content.length,
      created_at: 1,
      filename,
      purpose,
    } as const;
    this.#files.set(file.id, { file, content });
    return file;
  }

  content(id: string): Buffer | undefined {
    return this.#files.get(id)?.content;
  }

  forget(id: string): void {
    this.#files.delete(id);
  }

  async #object(method: string, path: readonly string[], body: JsonBody, form: FormData | undefined) {
    const [kind, id = '', part, sub = '', last] = path;
    if (kind === 'responses')
      return { id: this.#id('resp_'), object: 'response', status: 'completed', output: this.output };
    if (kind === 'chat') return { id: this.#id('chatcmpl-'), object: 'chat.completion', choices: [{}] };
    if (kind === 'conversations') return this.#conversation(method, id, part, sub, body);
    if (kind === 'files' && method === 'POST') {
      const given = form?.get('file');
      return this.keep(await bytesOf(given), given instanceof File ? given.name : '', String(form?.get('purpose')));
    }
    if (kind === 'files') {
      const kept = this.#files.get(id);
      if (method === 'DELETE' && this.#files.delete(id)) return { id, object: 'file', deleted: true };
      return part === 'content' ? kept?.content : kept?.file;
    }
    if (kind === 'batches') return this.#batch(id, part, body);
    if (kind === 'fine_tuning') return this.#job(part ?? '', sub, body);
    if (kind === 'models') return this.#model(method, decodeURIComponent(path.slice(1).join('/')));
    if (kind === 'containers') return this.#container(method, id, part, sub, last, body, form);
    if (kind === 'skills') return this.#skill(method, id, part, sub, last);
    if (kind === 'uploads') return this.#upload(id, part, body, form);
    if (kind === 'vector_stores') return this.#vectorStore(method, [id, part ?? '', sub, last ?? ''], body);
    return undefined;
  }

  #conversation(method: string, id: string, part: string | undefined, item: string, { items = [] }: JsonBody) {
    if (id === '') return { id: this.#id('conv_'), object: 'conversation' };
    const kept = this.#items.get(id) ?? [];
    this.#items.set(id, kept);
    if (part === undefined || method === 'DELETE') return { id, object: 'conversation' };
    if (item !== '') return kept.find((each) => each.id === item);
    const added = items.map((each) => ({ ...each, id: this.#id('msg_') }));
    kept.push(...added);
    return { object: 'list', data: [...this.items, ...(method === 'POST' ? added : kept)], has_more: false };
  }

  #batch(id: string, part: string | undefined, body: JsonBody) {
    if (id === '') {
      const made = this.#id('batch_');
      this.batches.set(made, { ...body, id: made, object: 'batch', status: 'validating', output_file_id: null });
      return { ...this.batches.get(made), ...this.newBatch };
    }
    const batch = this.batches.get(id);
    if (batch && part === 'cancel') this.batches.set(id, { ...batch, status: 'cancelling' });
    return this.batches.get(id);
  }

  #job(id: string, part: string, body: JsonBody) {
    if (id === '') {
      const made = this.#id('ftjob-');
      const nothingYet = { fine_tuned_model: null, trained_tokens: null, result_files: [] };
      this.jobs.set(made, { ...body, id: made, object: 'fine_tuning.job', status: 'queued', ...nothingYet });
      return this.jobs.get(made);
    }
    const job = this.jobs.get(id);
    if (!job) return undefined;
    const list = (data: readonly object[], has_more = false) => ({ object: 'list', data, has_more });
    if (part === 'events') return list([{ id: 'ftevent-1', object: 'fine_tuning.job.event', message: id }]);
    if (part === 'checkpoints') {
      const all = (this.checkpoints.get(id) ?? []).map((fine_tuned_model_checkpoint, i) => ({
        id: `ftckpt_${i}`,
        object: 'fine_tuning.job.checkpoint',
        fine_tuned_model_checkpoint,
        fine_tuning_job_id: id,
      }));
      // ten a page, as OpenAI
      const rest = all.slice(all.findIndex((checkpoint) => checkpoint.id === body.after) + 1);
      return list(rest.slice(0, 10), rest.length > 10);
    }
    const status = { cancel: 'cancelled', pause: 'paused', resume: 'running' }[part];
    if (status) this.jobs.set(id, { ...job, status });
    return this.jobs.get(id);
  }

  #model(method: string, id: string) {
    const model = (name: string) => ({ id: name, object: 'model', created: 1, owned_by: 'org' });
    if (id === '') return { object: 'list', data: [...this.models].map(model) };
    if (method === 'DELETE') return this.models.delete(id) ? { id, object: 'model', deleted: true } : undefined;
    return this.models.has(id) ? model(id) : undefined;
  }

  async #container(
    method: string,
    id: string,
    part: string | undefined,
    file: string,
    last: string | undefined,
    body: JsonBody,
    form: FormData | undefined,
  ) {
    if (id === '') {
      const made = this.#id('cntr_');
      this.#containers.set(made, new Map());
      return { id: made, object: 'container', name: body.name, status: 'running' };
    }
    const files = this.#containers.get(id);
    if (!files) return undefined;
    if (part === undefined) {
      if (method === 'DELETE') this.#containers.delete(id);
      return { id, object: method === 'DELETE' ? 'container.deleted' : 'container', status: 'running' };
    }
    const entry = (fileId: string) => ({ id: fileId, object: 'container.file', container_id: id });
    if (method === 'POST') {
      const made = this.#id('cfile_');
      const named = form ? form.get('file_id') : body.file_id;
      const kept = this.#files.get(String(named))?.content;
      files.set(made, kept ?? (await bytesOf(form?.get('file'))));
      return entry(made);
    }
    if (file === '') return { object: 'list', data: [...files.keys()].map(entry), has_more: false };
    if (last === 'content') return files.get(file);
    if (method === 'DELETE') files.delete(file);
    return entry(file);
  }

  #skill(method: string, id: string, part: string | undefined, version: string, last: string | undefined) {
    if (id === '') {
      const made = this.#id('skill_');
      this.#skills.add(made);
      return { id: made, object: 'skill', name: 'rivers', default_version: '1', latest_version: '1' };
    }
    if (!this.#skills.has(id)) return undefined;
    if (part === 'content' || last === 'content') return Buffer.from('PK');
    const of = { id: `skillver_of_${id}`, object: 'skill.version', skill_id: id, version: '1' };
    if (part === 'versions' && version === '' && method === 'GET')
      return { object: 'list', data: [of], has_more: false };
    if (part === 'versions')
      return method === 'DELETE' ? { ...of, object: 'skill.version.deleted', deleted: true } : of;
    if (method === 'DELETE') this.#skills.delete(id);
    return method === 'DELETE'
      ? { id, object: 'skill.deleted', deleted: true }
      : { id, object: 'skill', name: 'rivers' };
  }

  async #upload(id: string, part: string | undefined, body: JsonBody, form: FormData | undefined) {
    if (id === '') {
      const upload = this.#id('upload_');
      this.#uploads.set(upload, { filename: body.filename ?? '', purpose: body.purpose ?? '' });
      return { ...body, id: upload, object: 'upload', status: 'pending' };
    }
    const begun = this.#uploads.get(id);
    if (!begun) return undefined;
    if (part === 'parts') {
      const partId = this.#id('part_');
      this.#parts.set(partId, await bytesOf(form?.get('data')));
      return { id: partId, object: 'upload.part', upload_id: id };
    }
    if (part === 'cancel') return { id, object: 'upload', status: 'cancelled' };
    const whole = Buffer.concat((body.part_ids ?? []).map((partId) => this.#parts.get(partId) as Buffer));
    return { id, object: 'upload', status: 'completed', file: this.keep(whole, begun.filename, begun.purpose) };
  }

  #vectorStore(method: string, [id = '', part, sub = '', last]: readonly string[], body: JsonBody) {
    const store = (storeId: string) => ({
      id: storeId,
      object: 'vector_store',
      name: body.name ?? null,
      status: 'completed',
    });
    const entry = (fileId: string) => ({
      id: fileId,
      object: 'vector_store.file',
      vector_store_id: id,
      status: 'completed',
    });
    if (id === '') {
      const made = this.#id('vs_');
      this.#stores.set(made, new Set(body.file_ids ?? []));
      return store(made);
    }
    const files = this.#stores.get(id);
    if (!files) return undefined;
    const list = { object: 'list', data: [...files].map(entry), has_more: false };
    if (part === '') {
      if (method === 'DELETE') this.#stores.delete(id);
      return method === 'DELETE' ? { id, object: 'vector_store.deleted', deleted: true } : store(id);
    }
    if (part === 'search') return { object: 'vector_store.search_results.page', data: [], has_more: false };
    if (part === 'file_batches') {
      if (last === 'files') return list;
      for (const fileId of body.file_ids ?? []) files.add(fileId);
      return {
        id: sub === '' ? this.#id('vsfb_') : sub,
        object: 'vector_store.files_batch',
        vector_store_id: id,
        status: last === 'cancel' ? 'cancelled' : 'completed',
      };
    }
    if (sub === '' && method === 'POST') files.add(body.file_id ?? '');
    if (sub === '') return method === 'POST' ? entry(body.file_id ?? '') : list;
    if (last === 'content')
      return { object: 'vector_store.file_content.page', data: [{ type: 'text', text: 'Tagus' }] };
    if (method === 'DELETE') files.delete(sub);
    return method === 'DELETE' ? { id: sub, object: 'vector_store.file.deleted', deleted: true } : entry(sub);
  }
}
