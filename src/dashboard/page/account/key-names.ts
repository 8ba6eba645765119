import { useQuery } from '../data/query.ts';
import { useApi, useSession } from '../data/session.ts';

/** The names of keys, for those who may see them; of any other key its id. */
export function useKeyNames(): (id: string) => string {
  const api = useApi();
  const mayRead = useSession().scopes.includes('keys');
  const query = useQuery(async (signal) => (mayRead ? (await api.listApiKeys({ limit: 100 }, signal)).data : []), {
    key: `keys ${mayRead}`,
  });
  const names = new Map(query.data?.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) || id;
}
