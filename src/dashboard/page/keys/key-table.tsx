import type { ApiKey } from '../api/types.ts';
import { Badge, Tag } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { Ago } from '../elements/time.tsx';

function standingOf({ revoked_at, expires_at }: ApiKey) {
  if (revoked_at) return { shape: 'stopped', words: 'Revoked' } as const;
  if (expires_at && Date.parse(expires_at) <= Date.now()) return { shape: 'stopped', words: 'Expired' } as const;
  return { shape: 'good', words: 'Good' } as const;
}

function Row({ apiKey, onRevoke }: { apiKey: ApiKey; onRevoke: () => void }) {
  const { shape, words } = standingOf(apiKey);
  const { id, name, scopes, created_at, last_used_at, expires_at } = apiKey;
  return (
    <tr>
      <td>
        <Badge shape={shape}>{words}</Badge>
      </td>
      <td class="cell-main">
        <b>{name || 'Unnamed'}</b>
        <code class="under">{id}</code>
      </td>
      <td class="cell-wide">
        <span class="tags">
          {scopes.map((scope) => (
            <Tag key={scope}>{scope}</Tag>
          ))}
        </span>
      </td>
      <td class="numbers">
        <span class="cell-name">Used </span>
        {last_used_at ? <Ago at={last_used_at} /> : <span class="muted">Never</span>}
      </td>
      <td class="numbers">
        <span class="cell-name">Ends </span>
        {expires_at ? <Ago at={expires_at} /> : <span class="muted">Never</span>}
      </td>
      <td class="numbers">
        <span class="cell-name">Created </span>
        <Ago at={created_at} />
      </td>
      <td class="cell-end">
        {words === 'Good' && (
          <Button kind="danger" label={`Revoke ${name || id}`} onClick={onRevoke}>
            Revoke
          </Button>
        )}
      </td>
    </tr>
  );
}

export function KeyTable({ keys, onRevoke }: { keys: readonly ApiKey[]; onRevoke: (key: ApiKey) => void }) {
  return (
    <table class="list keys">
      <caption class="visually-hidden">API keys</caption>
      <thead>
        <tr>
          <th scope="col">State</th>
          <th scope="col">Name</th>
          <th scope="col">Good for</th>
          <th scope="col">Last used</th>
          <th scope="col">Ends</th>
          <th scope="col">Created</th>
          <th scope="col">
            <span class="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <Row key={key.id} apiKey={key} onRevoke={() => onRevoke(key)} />
        ))}
      </tbody>
    </table>
  );
}
