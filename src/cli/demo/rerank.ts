import { randomUUID } from 'node:crypto';
import { checkModel, countWords, DemoError, demoModel } from './chat.ts';

interface RerankRequest {
  readonly model?: unknown;
  readonly query?: unknown;
  readonly documents?: unknown;
  readonly top_n?: unknown;
}

/** What Cohere counts as one search unit: a query with so many documents. */
const documentsPerUnit = 100;

function wordsIn(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu));
}

/**
 * The answer to a rerank request: the score of a document is the part of the query's words that it has.
 * @throws DemoError for another model, no query, or no documents
 */
export function rerank({ model, query, documents, top_n: most }: RerankRequest): object {
  checkModel(model);
  if (typeof query !== 'string' || query === '') {
    throw new DemoError('invalid_value', "'query' must be a string that is not empty", 'query');
  }
  if (!Array.isArray(documents) || documents.length === 0) {
    throw new DemoError('invalid_value', "'documents' must be a list that is not empty", 'documents');
  }
  const asked = wordsIn(query);
  const texts = documents.map((document) => (typeof document === 'string' ? document : JSON.stringify(document)));
  const results = texts.map((text, index) => {
    const words = wordsIn(text);
    const shared = [...asked].filter((word) => words.has(word));
    return { index, relevance_score: shared.length / Math.max(1, asked.size) };
  });
  const tokens = texts.reduce((sum, text) => sum + countWords(text), countWords(query));
  return {
    id: `rerank-${randomUUID()}`,
    model: demoModel.id,
    results: results
      .toSorted((a, b) => b.relevance_score - a.relevance_score)
      .slice(0, typeof most === 'number' ? most : undefined),
    meta: { billed_units: { search_units: Math.ceil(documents.length / documentsPerUnit) } },
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}
